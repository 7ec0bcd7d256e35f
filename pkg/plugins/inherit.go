package plugins

import "reflect"

// Inherit has the plugins of b take over what those of old know, where they can: see [Heir]. kept are the names of those that
// did; lost are plugins of old with state that nobody takes over, since they are gone or their parameters are others.
func (b *Built) Inherit(old *Built) (kept, lost []string) {
	pools := make([]int, len(b.Spec.Pools))
	for i, p := range b.Spec.Pools {
		pools[i] = old.PoolIndex(p.Name)
	}
	for _, was := range old.instances {
		if _, ok := was.value.(Heir); !ok {
			continue
		}
		is := b.find(was.name)
		if is == nil || is.typ != was.typ || !sameParams(is.value, was.value) {
			lost = append(lost, was.name)
			continue
		}
		is.value.(Heir).Inherit(was.value, pools)
		kept = append(kept, was.name)
	}
	return kept, lost
}

// sameParams reports whether two plugins of one type have the same parameters.
func sameParams(a, b any) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	of, others := Params(a), Params(b)
	for i := range of {
		if !reflect.DeepEqual(of[i].field.Interface(), others[i].field.Interface()) {
			return false
		}
	}
	return true
}
