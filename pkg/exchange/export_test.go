package exchange

// ConfigsKept returns how many texts of configurations are kept for records.
func ConfigsKept(s *Scheduler) int {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	return len(s.ring.configs)
}

// Running returns how many exchanges are not over, and Held how many bytes of bodies count as held.
func Running(s *Scheduler) int64 { return s.running.Load() }
func Held(s *Scheduler) int64    { return s.held.Load() }
