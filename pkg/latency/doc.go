// Package latency learns how long model servers take, from answers as they end: a linear model of a few features of load and
// request, whose coefficients follow what is seen, and how far it was off of late. It knows nothing of what the features are.
//
//	prediction = multiplier of the endpoint × coefficients of its class · features
//
// The coefficients are those of recursive least squares with forgetting (for instance Haykin, Adaptive Filter Theory, chapter
// on RLS), on relative errors: an observation counts by 1/predicted², since 100 ms are much of a short answer and nothing of a
// long one.
package latency
