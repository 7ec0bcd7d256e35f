package plugins

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParamKind says how a parameter is written.
type ParamKind uint8

// The kinds. A duration is written as Go writes it ("150ms", "2m"), a quantity as Kubernetes does ("64", "512Mi", "2G").
const (
	ParamBool ParamKind = iota
	ParamInt
	ParamFloat
	ParamString
	ParamDuration
	ParamQuantity
	ParamStruct
	ParamList
	ParamMap
)

// String says what a value of the kind looks like, as messages and documentation print it.
func (k ParamKind) String() string {
	return [...]string{"true or false", "a whole number", "a number", "text", "a duration with its unit, such as 500ms or 2m",
		"a quantity, such as 64, 512Mi or 2G", "a group of parameters", "a list", "a table of names and values"}[k]
}

// Param is one parameter of a plugin: a field of its struct, described, and settable within its bounds.
//
// A parameter is an exported field with a json tag that gives its name. The schema tag holds, separated by commas:
//
//	min=V, max=V  inclusive bounds; of a text its length in bytes, of a list or table the number of items. A duration without
//	              a bound of its own has that of longestDuration, either way
//	enum=a|b      the texts that are allowed; of a list or table those allowed as items
//	required      the configuration must give it
//	was=old|older deprecated names, still accepted
//	unit=text     what the number counts, where the name does not end in it
//
// A pointer is a parameter that may be unset: nil until it is given. Structs nest, and the fields of an embedded struct
// count as the outer one's. Types that read themselves from text (encoding.TextUnmarshaler, such as netip.Addr) are texts.
// Fields without a json tag, unexported fields and handles of facts are no parameters.
type Param struct {
	Name     string // within its group
	Path     string // from the plugin down: "estimate.image.mode", "sources[2].header"
	Kind     ParamKind
	Required bool
	Min, Max string   // as in the tag; empty: no bound
	Enum     []string // empty: any
	Was      []string
	Unit     string // such as "tokens"; empty where nobody says

	// Owner is the struct that has the field, as "import/path.Type", and Field the field's name: where its comment is found.
	Owner, Field string

	field reflect.Value // addressable; a pointer for a parameter that may be unset
}

// Params describes the parameters of a plugin as its constructor returned it: the values that they hold are the defaults.
// It returns nil for anything but a pointer to a struct. A schema tag that cannot be understood and a parameter of a type
// that cannot be written down are mistakes of the program: Params panics and names the field.
func Params(plugin any) []Param {
	v := reflect.ValueOf(plugin)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	return fieldsOf(v.Elem(), "")
}

func fieldsOf(v reflect.Value, path string) []Param {
	var out []Param
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, tagged := f.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct:
			out = append(out, fieldsOf(v.Field(i), path)...)
			continue
		case !f.IsExported() || name == "" || name == "-" || isHandle(f.Type):
			continue
		}
		p := Param{Name: name, Path: name, Unit: unitOf(name), Owner: TypeName(v.Type()), Field: f.Name, field: v.Field(i)}
		if path != "" {
			p.Path = path + "." + name
		}
		where := fmt.Sprintf("%s.%s", v.Type(), f.Name)
		p.Kind = kindOf(p.valueType(), where)
		p.readSchema(f.Tag.Get("schema"), where)
		out = append(out, p)
	}
	return out
}

// TypeName returns the full name of a type, "import/path.Name".
func TypeName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// unitOf returns the unit in which a name ends, as "blockSizeTokens" does, or "".
func unitOf(name string) string {
	for _, u := range [...]struct{ suffix, unit string }{{"Tokens", "tokens"}, {"Blocks", "blocks"}, {"Bytes", "bytes"}, {"Ms", "ms"},
		{"Millis", "ms"}, {"Seconds", "s"}, {"Requests", "requests"}, {"BytesPerServer", "bytes"}, {"MBPerServer", "MB"}} {
		if strings.HasSuffix(name, u.suffix) {
			return u.unit
		}
	}
	return ""
}

func isHandle(t reflect.Type) bool {
	_, ok := reflect.Zero(t).Interface().(interface{ perEndpoint() bool })
	return ok
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	quantityType = reflect.TypeFor[Quantity]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func kindOf(t reflect.Type, where string) ParamKind {
	switch {
	case t == durationType:
		return ParamDuration
	case t == quantityType:
		return ParamQuantity
	case reflect.PointerTo(t).Implements(textType):
		return ParamString
	}
	switch t.Kind() {
	case reflect.Bool:
		return ParamBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return ParamInt
	case reflect.Float32, reflect.Float64:
		return ParamFloat
	case reflect.String:
		return ParamString
	case reflect.Struct:
		return ParamStruct
	case reflect.Slice:
		kindOf(t.Elem(), where)
		return ParamList
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			kindOf(t.Elem(), where)
			return ParamMap
		}
	}
	panic(fmt.Sprintf("%s: a parameter cannot be of type %s", where, t))
}

// valueType is the type behind the pointer of a parameter that may be unset.
func (p *Param) valueType() reflect.Type {
	if t := p.field.Type(); t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return p.field.Type()
}

func (p *Param) readSchema(tag, where string) {
	if tag == "" {
		return
	}
	for part := range strings.SplitSeq(tag, ",") {
		key, val, given := strings.Cut(part, "=")
		switch {
		case key == "required" && !given:
			p.Required = true
		case key == "min" && p.bound(val) == nil:
			p.Min = val
		case key == "max" && p.bound(val) == nil:
			p.Max = val
		case key == "enum" && val != "":
			p.Enum = strings.Split(val, "|")
		case key == "was" && val != "":
			p.Was = strings.Split(val, "|")
		case key == "unit" && val != "":
			p.Unit = val
		default:
			panic(fmt.Sprintf("%s: schema tag %q: cannot understand %q", where, tag, part))
		}
	}
}

// bound reports whether a bound of the tag can be compared with values of p.
func (p *Param) bound(text string) error {
	_, err := p.compare(text, p.zero())
	return err
}

func (p *Param) zero() reflect.Value { return reflect.Zero(p.valueType()) }

// compare orders v, a value of p, against the bound that text is: negative when v is below it.
func (p *Param) compare(text string, v reflect.Value) (int, error) {
	var a, b float64
	switch p.Kind {
	case ParamInt, ParamString, ParamList, ParamMap:
		limit, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		return compareInt(v, limit), nil
	case ParamDuration:
		limit, err := time.ParseDuration(text)
		if err != nil {
			return 0, err
		}
		return compareInt(v, int64(limit)), nil
	case ParamQuantity:
		limit, err := ParseQuantity(text)
		if err != nil {
			return 0, err
		}
		return compareInt(v, int64(limit)), nil
	case ParamFloat:
		limit, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, err
		}
		a, b = v.Float(), limit
	default:
		return 0, fmt.Errorf("%s has no order", p.Kind)
	}
	switch {
	case a < b:
		return -1, nil
	case a > b:
		return 1, nil
	}
	return 0, nil
}

func compareInt(v reflect.Value, limit int64) int {
	switch {
	case v.CanInt():
		return compareSigned(v.Int(), limit)
	case v.CanUint():
		if limit < 0 || v.Uint() > uint64(limit) {
			return 1
		}
		return compareSigned(int64(v.Uint()), limit)
	case v.Kind() == reflect.String || v.Kind() == reflect.Slice || v.Kind() == reflect.Map:
		return compareSigned(int64(v.Len()), limit)
	}
	return 0 // a type that reads itself from text has no length
}

func compareSigned(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Absent reports whether the parameter is unset: a pointer, list or table that is nil.
func (p Param) Absent() bool {
	switch p.field.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return p.field.IsNil()
	}
	return false
}

// value is where the parameter's value is read; the zero value if it is absent.
func (p Param) value() reflect.Value {
	if p.field.Kind() != reflect.Pointer {
		return p.field
	}
	if p.field.IsNil() {
		return p.zero()
	}
	return p.field.Elem()
}

// target is where the parameter's value is written; it is no longer absent afterwards.
func (p Param) target() reflect.Value {
	if p.field.Kind() != reflect.Pointer {
		return p.field
	}
	if p.field.IsNil() {
		p.field.Set(reflect.New(p.field.Type().Elem()))
	}
	return p.field.Elem()
}

// Text returns the value of a parameter that is no group, list or table, in the form in which configurations write it.
func (p Param) Text() string {
	v := p.value()
	switch p.Kind {
	case ParamBool:
		return strconv.FormatBool(v.Bool())
	case ParamFloat:
		return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits())
	case ParamDuration:
		return time.Duration(v.Int()).String()
	case ParamQuantity:
		return Quantity(v.Int()).String()
	case ParamInt:
		if v.CanUint() {
			return strconv.FormatUint(v.Uint(), 10)
		}
		return strconv.FormatInt(v.Int(), 10)
	case ParamString:
		if m, ok := v.Interface().(encoding.TextMarshaler); ok {
			text, err := m.MarshalText()
			if err != nil {
				return fmt.Sprintf("%v", v.Interface())
			}
			return string(text)
		}
		if v.Kind() == reflect.String {
			return v.String()
		}
		return fmt.Sprintf("%v", v.Interface())
	}
	return ""
}

// wants is the error for a value that cannot be one of p: what it is, and what would do.
func (p Param) wants(shown string) error {
	if len(p.Enum) > 0 {
		return fmt.Errorf("%s is %s; one of %s", p.Path, shown, strings.Join(p.Enum, ", "))
	}
	return fmt.Errorf("%s is %s; write %s", p.Path, shown, p.Kind)
}

// SetBool sets the value if p is true or false by kind, else the error says what is wanted.
func (p Param) SetBool(to bool) error {
	if p.Kind != ParamBool {
		return p.wants(strconv.FormatBool(to))
	}
	p.target().SetBool(to)
	return nil
}

// SetInt sets a whole number, number or quantity, within type and bounds.
func (p Param) SetInt(to int64) error {
	shown := strconv.FormatInt(to, 10)
	switch p.Kind {
	case ParamFloat:
		return p.SetFloat(float64(to))
	case ParamInt, ParamQuantity:
	case ParamString:
		return fmt.Errorf("%s is the number %s; write it in quotes: %q", p.Path, shown, shown)
	default:
		return p.wants(shown)
	}
	v := reflect.New(p.valueType()).Elem()
	if v.CanUint() {
		if to < 0 {
			return fmt.Errorf("%s is %s; at least %s", p.Path, shown, cmpOr(p.Min, "0"))
		}
		if v.OverflowUint(uint64(to)) {
			return fmt.Errorf("%s is %s; at most %s", p.Path, shown, cmpOr(p.Max, strconv.FormatUint(math.MaxUint64>>(64-v.Type().Bits()), 10)))
		}
		v.SetUint(uint64(to))
	} else {
		if v.OverflowInt(to) {
			most := int64(math.MaxInt64) >> (64 - v.Type().Bits())
			if to < 0 {
				return fmt.Errorf("%s is %s; at least %s", p.Path, shown, cmpOr(p.Min, strconv.FormatInt(-most-1, 10)))
			}
			return fmt.Errorf("%s is %s; at most %s", p.Path, shown, cmpOr(p.Max, strconv.FormatInt(most, 10)))
		}
		v.SetInt(to)
	}
	if err := p.within(v, shown); err != nil {
		return err
	}
	p.target().Set(v)
	return nil
}

func cmpOr(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

// SetFloat sets a number within its bounds; NaN and the infinities are refused always.
func (p Param) SetFloat(to float64) error {
	shown := strconv.FormatFloat(to, 'g', -1, 64)
	if p.Kind != ParamFloat {
		return p.wants(shown)
	}
	if math.IsNaN(to) || math.IsInf(to, 0) {
		return fmt.Errorf("%s is %s; write a finite number", p.Path, shown)
	}
	v := reflect.New(p.valueType()).Elem()
	if v.OverflowFloat(to) {
		return fmt.Errorf("%s is %s; too large", p.Path, shown)
	}
	v.SetFloat(to)
	if err := p.within(v, shown); err != nil {
		return err
	}
	p.target().Set(v)
	return nil
}

// SetString sets a text, a duration or a quantity.
func (p Param) SetString(to string) error {
	v := reflect.New(p.valueType()).Elem()
	shown := strconv.Quote(to)
	switch p.Kind {
	case ParamDuration:
		d, err := time.ParseDuration(to)
		if err != nil {
			return p.wants(shown)
		}
		v.SetInt(int64(d))
		shown = to
	case ParamQuantity:
		q, err := ParseQuantity(to)
		if err != nil {
			return p.wants(shown)
		}
		v.SetInt(int64(q))
		shown = to
	case ParamString:
		if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			if err := u.UnmarshalText([]byte(to)); err != nil {
				return fmt.Errorf("%s is %s; %w", p.Path, shown, err)
			}
			break
		}
		if len(p.Enum) > 0 && !slices.Contains(p.Enum, to) {
			return p.wants(shown)
		}
		v.SetString(to)
	case ParamInt, ParamFloat, ParamBool:
		return fmt.Errorf("%s is the text %s; write %s, without quotes", p.Path, shown, p.Kind)
	default:
		return p.wants(shown)
	}
	if err := p.within(v, shown); err != nil {
		return err
	}
	p.target().Set(v)
	return nil
}

// longestDuration bounds durations that have no bound of their own, and their negatives: a few of them added to an instant are one still.
const longestDuration = 20 * 365 * 24 * time.Hour

// within holds v against the bounds.
func (p Param) within(v reflect.Value, shown string) error {
	unit := ""
	switch p.Kind {
	case ParamDuration:
		switch d := time.Duration(v.Int()); {
		case p.Max == "" && d > longestDuration:
			return fmt.Errorf("%s is %s; at most %.0fh", p.Path, shown, longestDuration.Hours())
		case p.Min == "" && d < -longestDuration:
			return fmt.Errorf("%s is %s; at least -%.0fh", p.Path, shown, longestDuration.Hours())
		}
	case ParamList, ParamMap:
		unit, shown = " items", fmt.Sprintf("%d items long", v.Len())
	case ParamString:
		unit = " bytes long"
	}
	if p.Min != "" {
		if order, _ := p.compare(p.Min, v); order < 0 {
			return fmt.Errorf("%s is %s; at least %s%s", p.Path, shown, p.Min, unit)
		}
	}
	if p.Max != "" {
		if order, _ := p.compare(p.Max, v); order > 0 {
			return fmt.Errorf("%s is %s; at most %s%s", p.Path, shown, p.Max, unit)
		}
	}
	return nil
}

// Check holds the present value, and for a group each member's, against the bounds: what a constructor's defaults must
// pass, and a list or table once it is filled. An absent one passes.
func (p Param) Check() error {
	if p.Absent() {
		return nil
	}
	if p.Kind == ParamStruct {
		for _, f := range fieldsOf(p.target(), p.Path) {
			if err := f.Check(); err != nil {
				return err
			}
		}
		return nil
	}
	v := p.value()
	if p.Kind == ParamFloat && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		return fmt.Errorf("%s is %s; write a finite number", p.Path, p.Text())
	}
	if p.Kind == ParamString && len(p.Enum) > 0 && !slices.Contains(p.Enum, p.Text()) {
		return p.wants(strconv.Quote(p.Text()))
	}
	return p.within(v, p.Text())
}

// Fields returns the members of a group; a group that was absent is present afterwards, with zero values. It returns nil for all other kinds.
func (p Param) Fields() []Param {
	if p.Kind != ParamStruct {
		return nil
	}
	return fieldsOf(p.target(), p.Path)
}

// Elem describes an item of a list or table: setting it has no effect on p.
func (p Param) Elem() Param { return p.item(reflect.New(p.valueType().Elem()).Elem(), "[]") }

func (p Param) item(v reflect.Value, at string) Param {
	e := Param{Name: p.Name, Path: p.Path + at, Enum: p.Enum, field: v}
	e.Kind = kindOf(e.valueType(), e.Path)
	return e
}

// Clear makes a list or table empty, and present: what a configuration gives takes the place of the default.
func (p Param) Clear() {
	t := p.target()
	if p.Kind == ParamList {
		t.Set(reflect.MakeSlice(t.Type(), 0, 0))
	} else {
		t.Set(reflect.MakeMap(t.Type()))
	}
}

// Append adds an item to a list after fill has set it.
func (p Param) Append(fill func(item Param)) {
	t := p.target()
	v := reflect.New(t.Type().Elem()).Elem()
	fill(p.item(v, fmt.Sprintf("[%d]", t.Len())))
	t.Set(reflect.Append(t, v))
}

// Put adds an item to a table after fill has set it.
func (p Param) Put(key string, fill func(item Param)) {
	t := p.target()
	v := reflect.New(t.Type().Elem()).Elem()
	fill(p.item(v, "."+key))
	t.SetMapIndex(reflect.ValueOf(key).Convert(t.Type().Key()), v)
}

// Items calls yield for each item of a list, in order, and of a table, by key in byte order; key is empty for a list.
// Setting an item of a table has no effect.
func (p Param) Items(yield func(key string, item Param) bool) {
	v := p.value()
	switch p.Kind {
	case ParamList:
		for i := range v.Len() {
			if !yield("", p.item(v.Index(i), fmt.Sprintf("[%d]", i))) {
				return
			}
		}
	case ParamMap:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(k))
			if !yield(k.String(), p.item(item, "."+k.String())) {
				return
			}
		}
	}
}
