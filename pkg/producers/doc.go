// Package producers holds plugins that make facts for others and do nothing else. One file is one plugin. Producers that are
// one half of something larger stand with it: prefix producers in kvindex, sessions in sessions.
package producers
