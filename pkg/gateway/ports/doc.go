// Package ports opens the ports of a process: listeners that survive a lack of files and bound their connections, and
// certificates that are read again when their files change.
package ports
