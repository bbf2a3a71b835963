// Package holdfasttest is locks for unit tests, without Redis and without waiting.
package holdfasttest
