// Package scorers holds the plugins that give each candidate of a profile a score in [0,1]. One file is one plugin.
package scorers
