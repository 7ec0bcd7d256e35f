package exchange

// ConfigsKept returns how many texts of configurations are kept for records.
func ConfigsKept(s *Scheduler) int {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	return len(s.ring.configs)
}
