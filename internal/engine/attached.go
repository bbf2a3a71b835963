package engine

import "sync"

// attachments are what backends keep with a client, one of each type.
type attachments struct {
	of sync.Map   // by attachment: a pointer to what it is of
	mu sync.Mutex // is held while one is made; no other of this package's is taken then
}

// attachment is the key of one.
type attachment[T any] struct{}

// Attached is what there is one of for each client. The first who asks has it made.
func Attached[T any](c *Client, build func(*Client) *T) *T {
	if known, ok := c.attachments.of.Load(attachment[T]{}); ok {
		return known.(*T)
	}
	c.attachments.mu.Lock()
	defer c.attachments.mu.Unlock()
	if known, ok := c.attachments.of.Load(attachment[T]{}); ok {
		return known.(*T)
	}
	one := build(c)
	c.attachments.of.Store(attachment[T]{}, one)
	return one
}
