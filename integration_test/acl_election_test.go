package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestLeastPrivilegeOfAnElection: with exactly the rule of a fair lock and this one an election has its
// whole life. Control: without any word of it the server refuses something.
func TestLeastPrivilegeOfAnElection(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		own := strings.Fields(aclElection)
		for i := range len(own) + 1 {
			srv := redistest.Start(t, redistest.Exec(p.Path))
			words := strings.Fields(aclRule(srv, false) + " " + aclFair)
			for j, word := range own {
				isChannel := strings.HasPrefix(word, "&")
				if j == i || isChannel && srv.Major() < 7 {
					continue
				}
				words = append(words, word)
			}
			if i < len(own) && srv.Major() < 7 && strings.HasPrefix(own[i], "&") {
				continue // these servers have no such permission
			}
			err := elected(t, srv, strings.Join(words, " "))
			if i == len(own) {
				require.NoError(t, err)
				require.Empty(t, refused(t, srv))
				left, err := look(t.Context(), srv.Client(t))
				require.NoError(t, err)
				require.NoError(t, left.withTTL())
			} else {
				require.Error(t, err, "control: without %s", own[i])
			}
		}
	})
}

// elected is the life of an election: one leads, another one waits and follows, and is observed.
func elected(t *testing.T, srv *redistest.Server, rule string) error {
	t.Helper()
	rdb := as(t, srv, "limited", rule)
	first, second := election.New(newClient(t, rdb, nil), "orders:42"), election.New(newClient(t, rdb, nil), "orders:42")
	for _, err := range second.Observe(t.Context()) {
		if err != nil {
			return err
		}
		break
	}
	h, err := first.Campaign(t.Context(), "first")
	if err != nil {
		return err
	}
	if _, err := second.Leader(t.Context()); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		next, err := second.Campaign(t.Context(), "second")
		if err == nil {
			err = next.Unlock(t.Context())
		}
		done <- err
	}()
	require.Eventually(t, func() bool { return len(done) > 0 || len(candidates(t, srv)) > 0 }, patience, 2*time.Millisecond)
	if err := h.Unlock(t.Context()); err != nil {
		return err
	}
	return <-done
}

// candidates are those who wait in the election.
func candidates(t *testing.T, srv *redistest.Server) []any {
	t.Helper()
	list, _ := srv.Command(t, "LRANGE", "redisson_lock_queue:{orders:42}", "0", "-1").([]any)
	return list
}
