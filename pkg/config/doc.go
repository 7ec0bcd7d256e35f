// Package config reads an EndpointPickerConfig: it decodes the text strictly, fills in what the text leaves out, checks
// what can be checked without running anything, and hands the result to the framework as a [plugins.Spec].
//
// The text is YAML or JSON of kind EndpointPickerConfig under one of four API versions that mean the same (see
// [Versions]). Everything that would be ignored is an error: unknown fields and parameters, duplicate keys, a second
// document, sections of other pickers that this version has no counterpart for. Every [Problem] says where it stands, what
// is wrong with which value, and what to write instead. All problems of a file are found in one run.
//
// What was understood is printed by [File.Effective]: in canonical order, with every default filled in, so that two texts
// that mean the same print the same and have the same [File.Digest]. The effective text loads again to the same Spec.
//
// The way of a text through the package:
//
//	parse       text → nodes with positions                                        parse.go
//	read        nodes → document: fields and their types                            document.go, pools.go
//	resolve     types of plugins → entries of the catalogue, parameters decoded     resolve.go, parameters.go
//	upstream    sections that belong to other pickers: accepted, or refused         upstream.go
//	complete    what is left out: profile, picker, handler, model resolver          defaults.go
//	check       references, roles, names                                            check.go
//	order       canonical order → Spec, effective text                              effective.go
package config
