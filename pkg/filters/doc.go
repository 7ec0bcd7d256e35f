// Package filters holds the plugins that remove candidates from a profile. One file is one plugin.
package filters
