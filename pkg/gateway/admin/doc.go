// Package admin is the operators' side of a process: metrics, health, and what decisions and books look like from inside.
package admin
