package fleet

import "math"

// never is the instant of a step that is not planned.
const never = math.MaxInt64

// steps tells which pod's step ends first: a tournament over the pods' instants, ties going to the lower number. Setting one
// costs O(log pods), the first O(1).
type steps struct {
	at   []int64 // by pod
	tree []int32 // tree[1] is the winner; leaf i of the power of two stands at size+i
	size int32
}

// grow makes room for n pods.
func (s *steps) grow(n int) {
	for len(s.at) < n {
		s.at = append(s.at, never)
	}
	size := int32(1)
	for int(size) < n {
		size *= 2
	}
	s.size = size
	s.tree = make([]int32, 2*size)
	for i := range size {
		s.tree[size+i] = i
	}
	for i := size - 1; i >= 1; i-- {
		s.tree[i] = s.better(s.tree[2*i], s.tree[2*i+1])
	}
}

func (s *steps) of(i int32) int64 {
	if int(i) < len(s.at) {
		return s.at[i]
	}
	return never
}

func (s *steps) better(a, b int32) int32 {
	if s.of(b) < s.of(a) {
		return b
	}
	return a
}

func (s *steps) set(pod int32, at int64) {
	s.at[pod] = at
	for i := (s.size + pod) / 2; i >= 1; i /= 2 {
		s.tree[i] = s.better(s.tree[2*i], s.tree[2*i+1])
	}
}

// first returns the pod whose step ends first, and when; never if none is planned.
func (s *steps) first() (pod int32, at int64) {
	pod = s.tree[1]
	return pod, s.of(pod)
}
