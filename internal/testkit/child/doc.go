// Package child makes the processes that tests start end with the test binary.
package child
