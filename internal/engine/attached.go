package engine

import "sync"

// attachments are what backends keep with a client, one of each type.
type attachments struct {
	of sync.Map   // by attachment: a pointer to what it is of
	mu sync.Mutex // is held while one is made; no other of this package's is taken then
}

// attachment is the key of one.
type attachment[T any] struct{}
