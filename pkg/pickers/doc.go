// Package pickers holds the plugins that choose among the scored candidates of a profile. One file is one plugin.
package pickers
