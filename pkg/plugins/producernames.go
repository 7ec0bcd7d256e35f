package plugins

import "fmt"

// CheckProducer refuses a parameter that names another plugin than the one that provides f. Empty is whichever does.
func CheckProducer[H handle[H]](b *Builder, f Fact[H], parameter, want string) error {
	name, typ, ok := Provider(b, f)
	if !ok || want == "" || want == name || want == typ {
		return nil
	}
	return fmt.Errorf("%s is %q, but %q of this configuration is made by %q (%s); name that one or leave the parameter out", parameter, want, f.Name, name, typ)
}

// CheckInFlightProducer refuses the name of a plugin that does not count requests in flight. The books do, so that a
// configuration needs no plugin for it.
func CheckInFlightProducer(b *Builder, want string) error {
	const typ = "inflight-load-producer"
	if _, _, ok := Provider(b, InFlightTokens); ok || want == "" || want == typ {
		return CheckProducer(b, InFlightTokens, "inFlightLoadProducerName", want)
	}
	return fmt.Errorf("inFlightLoadProducerName is %q, and no plugin of this configuration is an %s; add it, or leave the parameter out: requests in flight are always counted", want, typ)
}

// CheckAttributeProducer refuses a producer of attributes that is not here.
func CheckAttributeProducer(want string) error {
	if want == "" || want == "core-metrics-extractor" {
		return nil
	}
	return fmt.Errorf("producer is %q; attributes come from the engines' metrics pages (core-metrics-extractor), annotations and labels: leave it out, and have the metric read as a custom one", want)
}
