// Package reasons holds the table of package reason to what the code does: each row is reached by driving the real thing to
// where it says that it is, and the reference page is what is printed from it.
package reasons
