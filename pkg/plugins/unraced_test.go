//go:build !race

package plugins_test

const raced = false
