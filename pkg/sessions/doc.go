// Package sessions keeps a client's requests where its earlier ones went. A session is known by a token that tells the
// endpoint itself, or by an id under which we remember it; a filter insists, a scorer prefers. One file is one plugin, beside
// table.go, which remembers, and affinity.go, which filter and scorer share.
package sessions
