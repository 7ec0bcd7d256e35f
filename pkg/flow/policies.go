package flow

import "github.com/fairlead/fairlead/pkg/plugins"

// The parts that policies have.
const (
	servesDetector = "saturation detector"
	servesCeilings = "usage limit policy"
	servesFairness = "fairness policy"
	servesOrdering = "ordering policy"
)

var _ = []plugins.Policy{
	(*LoadDetector)(nil), (*UtilizationDetector)(nil), (*ConcurrencyDetector)(nil), (*StaticLimit)(nil), (*Holdback)(nil),
	(*SoftReflective)(nil), (*GlobalStrict)(nil), (*RoundRobin)(nil), (*TokenDeficit)(nil), (*ProgramAware)(nil), (*FCFS)(nil), (*EDF)(nil),
	(*SLODeadline)(nil),
}

// Serves says as what it serves.
func (*LoadDetector) Serves() string { return servesDetector }

// Serves says as what it serves.
func (*UtilizationDetector) Serves() string { return servesDetector }

// Serves says as what it serves.
func (*ConcurrencyDetector) Serves() string { return servesDetector }

// Serves says as what it serves.
func (*StaticLimit) Serves() string { return servesCeilings }

// Serves says as what it serves.
func (*Holdback) Serves() string { return servesCeilings }

// Serves says as what it serves.
func (*SoftReflective) Serves() string { return servesCeilings }

// Serves says as what it serves.
func (*GlobalStrict) Serves() string { return servesFairness }

// Serves says as what it serves.
func (*RoundRobin) Serves() string { return servesFairness }

// Serves says as what it serves.
func (*TokenDeficit) Serves() string { return servesFairness }

// Serves says as what it serves.
func (*ProgramAware) Serves() string { return servesFairness }

// Serves says as what it serves.
func (*FCFS) Serves() string { return servesOrdering }

// Serves says as what it serves.
func (*EDF) Serves() string { return servesOrdering }

// Serves says as what it serves.
func (*SLODeadline) Serves() string { return servesOrdering }
