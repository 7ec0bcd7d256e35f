package filters_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func utilization(fallback bool, conditions ...filters.UtilizationCondition) *filters.Utilization {
	f := filters.NewUtilization()
	f.Conditions, f.FallbackOnEmpty = conditions, fallback
	return f
}

func TestUtilization(t *testing.T) {
	cap := func(metric string, most float64) filters.UtilizationCondition {
		return filters.UtilizationCondition{Metric: metric, MaxValue: most}
	}
	check(t, func() plugins.Filter { return utilization(false, cap("active-requests", 3)) }, []row{
		{"own requests in flight", "a in-flight=3; b in-flight=4; c", "a c"},
		{"nobody is left", "a in-flight=4", ""},
	})
	check(t, func() plugins.Filter { return utilization(false, cap("running-requests", 0)) }, []row{
		{"the engine's batch; who was never scraped stays", "a running=0; b running=1; c", "a c"}})
	check(t, func() plugins.Filter { return utilization(false, cap("waiting-queue", 5)) }, []row{
		{"the engine's queue", "a queued=5; b queued=6; c", "a c"}})
	check(t, func() plugins.Filter { return utilization(false, cap("kv-cache-utilization", 0.9)) }, []row{
		{"the engine's cache", "a kv-usage=0.9; b kv-usage=0.91; c", "a c"}})
	check(t, func() plugins.Filter {
		return utilization(false, cap("waiting-queue", 5), cap("kv-cache-utilization", 0.9), cap("waiting-queue", 2))
	}, []row{{"any bound removes, and of two on one metric the lower counts", "a queued=2 kv-usage=0.5; b queued=3 kv-usage=0.5; c queued=0 kv-usage=1", "a"}})
	check(t, func() plugins.Filter { return utilization(true, cap("waiting-queue", 5)) }, []row{
		{"all stay where nobody would", "a queued=6; b queued=7", "a b"},
		{"but no longer than that", "a queued=6; b queued=5", "b"}})
	three := int32(3)
	check(t, func() plugins.Filter { f := utilization(false); f.MaxRequests = &three; return f }, []row{
		{"the form of active-request-filter", "a in-flight=3; b in-flight=4", "a"}})
	refuses(t, "no bound", utilization(false), "conditions is empty")
	refuses(t, "a share above 1", utilization(false, cap("kv-cache-utilization", 90)), "maxValue of kv-cache-utilization is 90; at most 1")
}
