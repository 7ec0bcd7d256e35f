package producers

// others is what tells whether engines serve many requests that are neither own ones nor heard of from other replicas: as where
// several replicas do not tell each other, or clients pass the picker by.
type others struct {
	many bool // they do

	answers evidence // that were seen to begin (observed) of those that the engines counted (expected)
}

// The bounds of the verdict: how many answers must have been counted, and which share of them is less than most and nearly all. Of
// two replicas that do not hear each other each sees half.
const (
	judgedAnswers        = 50
	mostSeen, nearlySeen = 0.7, 0.85
)

// judge decides, and reports whether there are many where there were not. Where answers are never seen nothing can be told.
func (o *others) judge() (found bool) {
	was := o.many
	if o.answers.observed > 0 && o.answers.expected >= judgedAnswers {
		o.many = o.answers.observed < within(was, mostSeen, nearlySeen)*o.answers.expected
	}
	return o.many && !was
}
