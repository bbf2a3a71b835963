package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// refusal is an error reply, as go-redis has it.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// TestClassifyRefusals: what a server refuses because it is no master any more did not run, and passes.
func TestClassifyRefusals(t *testing.T) {
	for text, passes := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                              true,
		"ERR Attempted to access a non local key in a cluster node script: on @user_script:47.":              true,
		"ERR Error running script: @user_script:47: Script attempted to access a non local key in a cluster": true, // of Redis 6
		"OOM command not allowed when used memory > 'maxmemory'.":                                            false,
	} {
		sent, passing := Classify(refusal(text))
		require.False(t, sent, text)
		require.Equal(t, passes, passing, text)
	}
}
