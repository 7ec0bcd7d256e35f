// Package adapters holds the ext_proc server and the embedded proxy against each other: they carry the same exchange, and so
// a request comes to the same decision, the same record, the same bytes at the model server and the same answer at the client
// by either way. Its test plays every row of a table through both, with the same configuration, clock, seed, number and model
// servers, and compares all but what a transport cannot help to differ in, which one function names.
package adapters
