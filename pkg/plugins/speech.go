package plugins

import "regexp"

// InNamesOf returns a function that writes the names of parameters, which comments call by their Go fields, as
// configurations do: "MaxNumOfEndpoints is …" becomes "maxNumOfEndpoints is …".
func InNamesOf(params []Param) func(text string) string {
	names := map[string]string{}
	var gather func(params []Param)
	gather = func(params []Param) {
		for _, p := range params {
			names[p.Field] = p.Name
			gather(p.Members())
		}
	}
	gather(params)
	word := regexp.MustCompile(`[A-Za-z0-9_]+`)
	return func(text string) string {
		return word.ReplaceAllStringFunc(text, func(w string) string {
			if name, ok := names[w]; ok {
				return name
			}
			return w
		})
	}
}

// Members returns the parameters of a group, or those of an item of a list or table of groups; nil for anything else.
func (p Param) Members() []Param {
	switch p.Kind {
	case ParamStruct:
		return p.Fields()
	case ParamList, ParamMap:
		return p.Elem().Fields()
	}
	return nil
}
