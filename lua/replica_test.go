package lua

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// A connection may lead to a server that was the primary a moment ago. As a replica it may not have
// heard of a holder yet, so none of the scripts may tell from what it has that there is none.
func TestReplicaDoesNotSayNotHeld(t *testing.T) {
	rdb := redistest.StartReplicated(t, 1).Replicas()[0].Client(t)
	for script, call := range map[*Script]func(*Script) Call{
		Recount: func(s *Script) Call { return s.Call("name", "owner", 1, 1000) },
		Release: func(s *Script) Call { return s.Call("name", "channel", "owner", "PUBLISH") },
		Renew:   func(s *Script) Call { return s.Call("name", "token", "owner", 1000, 1000) },
		Pass:    func(s *Script) Call { return s.Call("name", "token", "channel", "owner", 1000, 1000, "PUBLISH", 16) },
	} {
		_, err := Run(t.Context(), rdb, call(script))
		require.True(t, IsError(err, "READONLY"), "%s: %v", script.Name(), err)

		// The control.
		text := regexp.MustCompile(`(?m)^if not \w+ and .*HLEN.*$`).ReplaceAllString(script.Text(), "")
		reply, err := Run(t.Context(), rdb, call(New("control", text, script.keys.(int))))
		require.NoError(t, err)
		require.Equal(t, Gone, reply.Status, script.Name())
	}
}
