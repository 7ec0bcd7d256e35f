package plugins

import "fmt"

// Warning is what a plugin says of its settings when it is provisioned: they are accepted, and worth a look.
type Warning struct {
	Plugin string
	// Parameter is the path of the parameter that it is about; empty for the plugin as a whole.
	Parameter string
	Message   string // what is, with the value, and what to do after a semicolon
}

// Warn tells of a setting that is accepted although it has no effect beside the others, is taken for another value, or is
// seldom meant. parameter is the path of the parameter that it is about, such as "blockSizeTokens" or
// "conditions[0].maxValue"; whoever reads a configuration leaves the warning out where the file does not give that parameter,
// so that a plugin need not know what is a default. The empty path stands for the plugin as a whole and is always told.
//
// The message says what is, with the value, and after a semicolon what to do; it begins with the parameter's name.
func (b *Builder) Warn(parameter, format string, args ...any) {
	b.it.warnings = append(b.it.warnings, Warning{Plugin: b.it.name, Parameter: parameter, Message: fmt.Sprintf(format, args...)})
}

// Warnings returns what the plugins had to say of their settings, in the order of the plugins.
func (b *Built) Warnings() []Warning {
	var all []Warning
	for _, it := range b.instances {
		all = append(all, it.warnings...)
	}
	return all
}
