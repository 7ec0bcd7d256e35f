// Package conformance holds the plugins by which tests of gateways steer requests to endpoints of their choice and see who
// served them. One file is one plugin. They trust the client, and are not for use in production.
package conformance
