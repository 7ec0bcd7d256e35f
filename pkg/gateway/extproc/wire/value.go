package wire

import "google.golang.org/protobuf/encoding/protowire"

// Fields of google.protobuf.Struct, Value and ListValue.
const (
	structFields = 1
	valueNull    = 1
	valueNumber  = 2
	valueString  = 3
	valueBool    = 4
	valueStruct  = 5
	valueList    = 6
	listValues   = 1
)

// Value is a value of dynamic metadata, as far as it is read: a string, a list, or something else.
type Value struct {
	has  bool // false: there is none
	kind protowire.Number
	raw  []byte
}

// Has reports whether there is a value.
func (v Value) Has() bool { return v.has }

// Text returns the string that v is, empty if it is none.
func (v Value) Text() string {
	if v.kind != valueString {
		return ""
	}
	return string(v.raw)
}

// List returns the strings in the list that v is; ok is false if it is none. Other values of the list are left out.
func (v Value) List() (texts []string, ok bool) {
	if v.kind != valueList {
		return nil, false
	}
	for m := v.raw; len(m) > 0; {
		f, rest, err := next(m)
		if err != nil {
			break
		}
		if m = rest; f.is(listValues) {
			if s := readValue(f.bytes).Text(); s != "" {
				texts = append(texts, s)
			}
		}
	}
	return texts, true
}

// readValue reads a google.protobuf.Value. One that cannot be read is empty.
func readValue(m []byte) Value {
	v := Value{has: true}
	for len(m) > 0 {
		f, rest, err := next(m)
		if err != nil {
			return Value{}
		}
		m = rest
		switch {
		case f.is(valueString):
			v.kind, v.raw = valueString, f.bytes
		case f.is(valueList) && v.kind == valueList:
			v.raw = merge(v.raw, f.bytes)
		case f.is(valueList):
			v.kind, v.raw = valueList, f.bytes
		case f.is(valueStruct),
			f.isVarint(valueNull), f.isVarint(valueBool), f.num == valueNumber && f.typ == protowire.Fixed64Type:
			v.kind, v.raw = f.num, nil
		}
	}
	return v
}

// nested returns the value of a key of the Struct that a map of messages has for a namespace.
func nested(m []byte, num protowire.Number, namespace, key string) Value {
	s, has, err := entry(m, num, namespace)
	if err != nil || !has {
		return Value{}
	}
	raw, has, err := entry(s, structFields, key)
	if err != nil || !has {
		return Value{}
	}
	return readValue(raw)
}

// Fields of envoy.config.core.v3.Metadata.
const (
	metadataUntyped = 1
	metadataTyped   = 2
)

// Metadata is an envoy.config.core.v3.Metadata as it came.
type Metadata []byte

// Value returns one value of untyped metadata.
func (m Metadata) Value(namespace, key string) Value {
	return nested(m, metadataUntyped, namespace, key)
}

// Fields of google.protobuf.Any.
const (
	anyType  = 1
	anyValue = 2
)
