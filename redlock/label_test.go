package redlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// TestLabelAtEachMaster: each master is told who its client is, and told nothing any more at the end.
func TestLabelAtEachMaster(t *testing.T) {
	l := newLab(t, 3)
	p, nobody := l.party(&holdfast.Options{Label: "who"}), l.party(nil)
	for _, holder := range []*party{p, nobody} {
		h := lock(t, holder.mutex("a"))
		if holder == p {
			for i, c := range p.clients {
				eventually(t, "the label is written", func() bool {
					return l.direct[i].Get(t.Context(), keys.Label(c.ID())).Val() == "who"
				})
				require.Positive(t, l.direct[i].PTTL(t.Context(), keys.Label(c.ID())).Val())
			}
		}
		unlock(t, h)
	}
	for _, c := range append(p.clients, nobody.clients...) {
		require.NoError(t, c.Close(t.Context()))
	}
	for _, rdb := range l.direct {
		require.Empty(t, rdb.Keys(t.Context(), "holdfast_client*").Val())
	}
}
