package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// module is the path of ours that names of types begin with.
const module = "github.com/fairlead/fairlead/"

// describe returns the generated file of the module at root.
func describe(root string) ([]byte, error) {
	d := description{root: root, texts: map[string]string{}, reasons: map[string][]string{}, folders: map[string][]*ast.File{}}
	for _, e := range catalog.Builtin() {
		of := reflect.TypeOf(e.New())
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if err := d.plugin(of); err != nil {
			return nil, err
		}
	}
	for _, of := range config.DocumentTypes() {
		if err := d.structure(of); err != nil {
			return nil, err
		}
	}
	if err := d.facts(); err != nil {
		return nil, err
	}
	return d.print()
}

// description gathers doc comments by name and reasons by plugin type.
type description struct {
	root    string
	texts   map[string]string
	reasons map[string][]string // identifiers of package reason
	folders map[string][]*ast.File
}

// files parses the source of a package of ours, once.
func (d *description) files(importPath string) ([]*ast.File, error) {
	dir := strings.TrimPrefix(importPath, module)
	if files, ok := d.folders[dir]; ok {
		return files, nil
	}
	names, err := filepath.Glob(filepath.Join(d.root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	d.folders[dir] = files
	return files, nil
}

// plugin takes the comments of a plugin's type and parameters, and the reasons that its file names.
func (d *description) plugin(of reflect.Type) error {
	if err := d.structure(of); err != nil {
		return err
	}
	files, err := d.files(of.PkgPath())
	if err != nil {
		return err
	}
	name := plugins.TypeName(of)
	for _, f := range files {
		ofNobody := of == queue && !slices.ContainsFunc(pluginsOf(of.PkgPath()), func(typ string) bool { return hasMethodOf(f, typ) })
		if hasMethodOf(f, of.Name()) || ofNobody {
			d.reasonsIn(name, f)
		}
	}
	if of == queue {
		d.reasons[name] = append(d.reasons[name], notedForQueue...)
	}
	return nil
}

// queue is the plugin whose work the files of its package do that are no plugin's.
var queue = reflect.TypeFor[flow.Queue]()

// notedForQueue are the reasons that the exchange notes where a queue wanted something done.
var notedForQueue = []string{"NotRevocable"}

// pluginsOf returns the names of the types of plugins that a package has.
func pluginsOf(path string) (names []string) {
	for _, e := range catalog.Builtin() {
		of := reflect.TypeOf(e.New())
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.PkgPath() == path {
			names = append(names, of.Name())
		}
	}
	return names
}

// reasonsIn takes the reasons that a file names as those of a plugin, but for those that it only compares with.
func (d *description) reasonsIn(name string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			return false
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "reason" && !slices.Contains(noReasons, sel.Sel.Name) && !slices.Contains(d.reasons[name], sel.Sel.Name) {
			d.reasons[name] = append(d.reasons[name], sel.Sel.Name)
		}
		return true
	})
}

// noReasons are names of package reason that are no rows of its table.
var noReasons = []string{"ID", "Row", "Refusal", "Refuse", "Sink", "Discard", "All", "Parse"}

func hasMethodOf(f *ast.File, typ string) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Recv != nil && len(fn.Recv.List) == 1 && receiver(fn.Recv.List[0].Type) == typ
	})
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// structure takes the comments of a struct, of its tagged fields, and of the structs below it.
func (d *description) structure(of reflect.Type) error {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	name := plugins.TypeName(of)
	if of.Kind() != reflect.Struct || !strings.HasPrefix(of.PkgPath(), module) {
		return nil
	}
	if _, done := d.texts[name]; done {
		return nil
	}
	files, err := d.files(of.PkgPath())
	if err != nil {
		return err
	}
	spec, text := typeSpec(files, of.Name())
	if spec == nil {
		return fmt.Errorf("%s is declared nowhere in %s", of.Name(), path.Join(of.PkgPath(), "*.go"))
	}
	d.texts[name] = text
	declared, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range declared.Fields.List {
		for _, id := range f.Names {
			field, _ := of.FieldByName(id.Name)
			if _, tagged := field.Tag.Lookup("json"); !tagged {
				continue
			}
			if text := strings.TrimSpace(f.Doc.Text() + f.Comment.Text()); text != "" {
				d.texts[name+"."+id.Name] = text
			}
		}
	}
	for i := range of.NumField() {
		f := of.Field(i)
		if _, tagged := f.Tag.Lookup("json"); tagged || f.Anonymous {
			if err := d.structure(f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

func typeSpec(files []*ast.File, name string) (spec *ast.TypeSpec, text string) {
	for _, f := range files {
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gen.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.Name == name {
					doc := ts.Doc
					if doc == nil {
						doc = gen.Doc
					}
					return ts, strings.TrimSpace(doc.Text())
				}
			}
		}
	}
	return nil, ""
}

// facts takes the comments of the facts, by the name that records give them; a fact without one shares that before it. In
// the comments the facts are called by those names too.
func (d *description) facts() error {
	files, err := d.files(module + "pkg/plugins")
	if err != nil {
		return err
	}
	names := map[string]string{"Unknown": "unknown"} // by identifier
	texts := map[string]string{}
	for _, f := range files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				if name := familyName(fn); name != "" {
					texts[name] = strings.TrimSpace(fn.Doc.Text())
				}
			}
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			text := ""
			for _, s := range gen.Specs {
				vs := s.(*ast.ValueSpec)
				if vs.Doc != nil {
					text = strings.TrimSpace(vs.Doc.Text())
				}
				if name := factName(vs); name != "" {
					names[vs.Names[0].Name], texts[name] = name, text
				}
			}
		}
	}
	for name, text := range texts {
		d.texts["fact "+name] = word.ReplaceAllStringFunc(text, func(w string) string { return cmp.Or(names[w], w) })
	}
	return nil
}

var word = regexp.MustCompile(`[A-Za-z0-9_]+`)

// factName returns the Name of a declaration that is a Fact, or "".
func factName(vs *ast.ValueSpec) string {
	if len(vs.Values) != 1 {
		return ""
	}
	return nameOf(vs.Values[0])
}

// familyName returns what the names of the facts begin with that a function makes, such as "header.", or "".
func familyName(fn *ast.FuncDecl) string {
	if fn.Body == nil || len(fn.Body.List) != 1 {
		return ""
	}
	ret, ok := fn.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return ""
	}
	return nameOf(ret.Results[0])
}

// nameOf returns the Name in the literal of a Fact, of a sum its first part; "" for anything else.
func nameOf(e ast.Expr) string {
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	index, ok := lit.Type.(*ast.IndexExpr)
	if !ok {
		return ""
	}
	if id, ok := index.X.(*ast.Ident); !ok || id.Name != "Fact" {
		return ""
	}
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "Name" {
			continue
		}
		value := kv.Value
		if sum, ok := value.(*ast.BinaryExpr); ok {
			value = sum.X
		}
		if id, ok := value.(*ast.Ident); ok && id.Obj != nil {
			if spec, ok := id.Obj.Decl.(*ast.ValueSpec); ok && len(spec.Values) == 1 { // a constant
				value = spec.Values[0]
			}
		}
		if text, ok := value.(*ast.BasicLit); ok {
			name, _ := strconv.Unquote(text.Value)
			return name
		}
	}
	return ""
}

func (d *description) print() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated by internal/describe (make generate); DO NOT EDIT.\n\npackage catalog\n\n" +
		"import \"github.com/fairlead/fairlead/pkg/reason\"\n\n" +
		"// Descriptions returns the doc comments of the plugins' types (\"import/path.Type\"), of their parameters\n" +
		"// (\"import/path.Type.Field\"), of the configuration's own, and of the facts (\"fact name\").\n" +
		"func Descriptions() map[string]string {\n\td := map[string]string{}\n")
	for _, name := range slices.Sorted(maps.Keys(d.texts)) { // one statement each: gofmt would align the lines of a literal
		fmt.Fprintf(&b, "\td[%q] = %q\n", name, d.texts[name])
	}
	b.WriteString("\treturn d\n}\n\n// Reasons returns the reasons that the plugins of each type (\"import/path.Type\") name.\n" +
		"func Reasons() map[string][]reason.ID {\n\tr := map[string][]reason.ID{}\n")
	for _, name := range slices.Sorted(maps.Keys(d.reasons)) {
		fmt.Fprintf(&b, "\tr[%q] = []reason.ID{reason.%s}\n", name, strings.Join(d.reasons[name], ", reason."))
	}
	b.WriteString("\treturn r\n}\n")
	return format.Source(b.Bytes())
}
