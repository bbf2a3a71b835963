package holdfast

import (
	"log/slog"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// String reads like `rlock "orders:42", token 1795845802511406, owner <client uuid>:h1`. If the hold has
// ended, the reason is behind it. It is for people, and may change.
func (h *Hold) String() string { return (*engine.Hold)(h).String() }

// LogValue has the kind, the name, the token, the owner and the depth of the hold, for package log/slog.
func (h *Hold) LogValue() slog.Value { return (*engine.Hold)(h).LogValue() }

// String reads like "client <uuid>", with its label in brackets if it has one. It is for people, and may
// change.
func (c *Client) String() string { return (*engine.Client)(c).String() }

// LogValue has the id and the label of the client, for package log/slog.
func (c *Client) LogValue() slog.Value { return (*engine.Client)(c).LogValue() }

// String reads like "held by <client uuid>:h1, 29.8s left, token 1795845802511406, 2 waiting", or "free". It
// is for people, and may change.
func (s State) String() string {
	return engine.StateText(s.Owner, s.Count, s.Remaining, s.Token, s.Waiters)
}

// LogValue has the fields of the state, for package log/slog.
func (s State) LogValue() slog.Value {
	return slog.GroupValue(slog.String("owner", s.Owner), slog.Int("count", s.Count),
		slog.Duration("remaining", s.Remaining), slog.Uint64("token", s.Token), slog.Int("waiters", s.Waiters))
}
