// Package pluginstest runs plugins on small worlds that are written in one line, through the real builder and cycle:
//
//	{"never scraped is not idle", "a waiting=0; b", []float64{1, 0.5}},
//	...
//	got := pluginstest.Score(t, scorers.NewQueue(), row.world)
//
// See Parse for the notation. A Rig does more: it sends requests through a pool with real books.
package pluginstest
