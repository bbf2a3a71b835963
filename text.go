package holdfast

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// String reads like `rlock "orders:42", token 1795845802511406, owner <client uuid>:h1`. If the hold has
// ended, the reason is behind it. It is for people, and may change.
func (h *Hold) String() string {
	kind, name := (*engine.Hold)(h).Of()
	if name == "" {
		return "no hold"
	}
	text := kind + " " + printable.Quote(name) + ", token " + strconv.FormatUint(h.Token(), 10) + ", owner " + printable.Name(h.Owner())
	if why := (*engine.Hold)(h).Ended(); why != nil {
		text += ": " + printable.Line(why.Error())
	}
	return text
}

// LogValue has the kind, the name, the token, the owner and the depth of the hold, for package log/slog.
func (h *Hold) LogValue() slog.Value {
	kind, name := (*engine.Hold)(h).Of()
	if name == "" {
		return slog.StringValue("no hold")
	}
	return slog.GroupValue(slog.String("kind", kind), slog.String("name", printable.Name(name)), slog.Uint64("token", h.Token()),
		slog.String("owner", printable.Name(h.Owner())), slog.Int("count", h.Count()))
}

// String reads like "client <uuid>", with its label in brackets if it has one. It is for people, and may
// change.
func (c *Client) String() string {
	switch id, label := c.ID(), (*engine.Client)(c).Label(); {
	case id == "":
		return "no client"
	case label == "":
		return "client " + id
	default:
		return "client " + id + " (" + label + ")"
	}
}

// LogValue has the id and the label of the client, for package log/slog.
func (c *Client) LogValue() slog.Value {
	if c.ID() == "" {
		return slog.StringValue("no client")
	}
	return slog.GroupValue(slog.String("id", c.ID()), slog.String("label", (*engine.Client)(c).Label()))
}

// String reads like "held by <client uuid>:h1, 29.8s left, token 1795845802511406, 2 waiting", or "free". It
// is for people, and may change.
func (s State) String() string {
	text := "free"
	if s.Owner != "" {
		text = "held by " + printable.Name(s.Owner)
		if s.Count > 1 {
			text += fmt.Sprintf(", entered %d times", s.Count)
		}
		if s.Remaining < 0 {
			text += ", without an end"
		} else {
			text += fmt.Sprintf(", %v left", s.Remaining.Round(time.Millisecond))
		}
	}
	if s.Token != 0 {
		text += ", token " + strconv.FormatUint(s.Token, 10)
	}
	if s.Waiters > 0 {
		text += fmt.Sprintf(", %d waiting", s.Waiters)
	}
	return text
}

// LogValue has the fields of the state, for package log/slog.
func (s State) LogValue() slog.Value {
	return slog.GroupValue(slog.String("owner", printable.Name(s.Owner)), slog.Int("count", s.Count),
		slog.Duration("remaining", s.Remaining), slog.Uint64("token", s.Token), slog.Int("waiters", s.Waiters))
}
