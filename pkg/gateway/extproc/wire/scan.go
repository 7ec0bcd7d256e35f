package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message. The wire type says which of the others holds its value.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	value uint64 // varints
	bytes []byte // length-delimited, a part of the message
}

// is reports whether f is a length-delimited field of this number.
func (f *field) is(num protowire.Number) bool { return f.num == num && f.typ == protowire.BytesType }

// isVarint reports whether f is a varint of this number.
func (f *field) isVarint(num protowire.Number) bool {
	return f.num == num && f.typ == protowire.VarintType
}

// next takes the first field off m.
func next(m []byte) (f field, rest []byte, err error) {
	num, typ, n := protowire.ConsumeTag(m)
	if n < 0 {
		return f, nil, fmt.Errorf("tag: %w", protowire.ParseError(n))
	}
	m = m[n:]
	f.num, f.typ = num, typ
	switch typ {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(m)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(m)
	default:
		n = protowire.ConsumeFieldValue(num, typ, m)
	}
	if n < 0 {
		return f, nil, fmt.Errorf("field %d: %w", num, protowire.ParseError(n))
	}
	return f, m[n:], nil
}

// merge joins two parts of a message: the encoding of the whole is that of its parts one after the other.
func merge(a, b []byte) []byte {
	if len(a) == 0 {
		return b
	}
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}

// member returns the message that is field num of m; nil and false without it.
func member(m []byte, num protowire.Number) (value []byte, has bool, err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return nil, false, err
		}
		if f.is(num) {
			value, has = merge(value, f.bytes), true
		}
	}
	return value, has, nil
}

// text returns the string that is field num of m, empty without it.
func text(m []byte, num protowire.Number) (value string, err error) {
	var last []byte
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return "", err
		}
		if f.is(num) {
			last = f.bytes
		}
	}
	return string(last), nil
}

// entry returns the value of a key in the map of messages that is field num of m. Of several entries of a key the last is it.
func entry(m []byte, num protowire.Number, key string) (value []byte, has bool, err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return nil, false, err
		}
		if !f.is(num) {
			continue
		}
		k, v, err := keyed(f.bytes)
		if err != nil {
			return nil, false, err
		}
		if string(k) == key {
			value, has = v, true
		}
	}
	return value, has, nil
}

// keyed reads an entry of a map from strings to messages.
func keyed(m []byte) (key, value []byte, err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return nil, nil, err
		}
		switch {
		case f.is(1):
			key = f.bytes
		case f.is(2):
			value = merge(value, f.bytes)
		}
	}
	return key, value, nil
}
