package remote

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// TestFailuresOfAQuestion: others are told of a question without an answer, until there is one, whoever asked; and not of what
// only this one is refused.
func TestFailuresOfAQuestion(t *testing.T) {
	var failed atomic.Pointer[error]
	for _, c := range []struct {
		what   string
		err    error
		outage bool
	}{
		{"no answer", io.ErrUnexpectedEOF, true},
		{"an answer", nil, false},
		{"a server that cannot serve", refusal("LOADING Redis is loading the dataset in memory"), true},
		{"an answer", nil, false},
		{"what the caller may not have", refusal("HOLDFAST_PERMITS 3 permits were asked for"), false},
	} {
		e := Effort{home: &Session{Life: context.Background()}, by: &Server{}}
		e.judge(context.Background(), lua.Reply{}, c.err, &failed)
		require.Equal(t, c.outage, failed.Load() != nil, c.what)
		if c.outage {
			require.True(t, errors.Is(*failed.Load(), c.err), c.what)
		}
	}
}
