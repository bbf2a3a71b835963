// Package rw is the model of a read-write lock. It consists of tests.
package rw
