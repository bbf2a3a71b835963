package engine

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// String is what users know as String of holdfast.Hold.
func (h *Hold) String() string {
	if h.check() != nil {
		return "no hold"
	}
	key := h.on.of()
	text := key.Kind + " " + printable.Quote(key.Name) + ", token " + strconv.FormatUint(h.Token(), 10) + ", owner " + printable.Name(h.Owner())
	if why := h.Ended(); why != nil {
		text += ": " + printable.Line(why.Error())
	}
	return text
}

// LogValue is that of holdfast.Hold.
func (h *Hold) LogValue() slog.Value {
	if h.check() != nil {
		return slog.StringValue(h.String())
	}
	key := h.on.of()
	return slog.GroupValue(slog.String("kind", key.Kind), slog.String("name", printable.Name(key.Name)), slog.Uint64("token", h.Token()),
		slog.String("owner", printable.Name(h.Owner())), slog.Int("count", h.Count()))
}

// String is that of holdfast.Client.
func (c *Client) String() string {
	switch {
	case c.ID() == "":
		return "no client"
	case c.opts.Label == "":
		return "client " + c.id
	}
	return "client " + c.id + " (" + c.opts.Label + ")"
}

// LogValue is that of holdfast.Client.
func (c *Client) LogValue() slog.Value {
	if c.ID() == "" {
		return slog.StringValue(c.String())
	}
	return slog.GroupValue(slog.String("id", c.id), slog.String("label", c.opts.Label))
}

// StateText is String of holdfast.State. A negative time has no end, and negative waiters are not known.
func StateText(owner string, count int, remaining time.Duration, token uint64, waiters int) string {
	text := "free"
	if owner != "" {
		text = "held by " + printable.Name(owner)
		if count > 1 {
			text += fmt.Sprintf(", entered %d times", count)
		}
		if remaining < 0 {
			text += ", without an end"
		} else {
			text += fmt.Sprintf(", %v left", remaining.Round(time.Millisecond))
		}
	}
	if token != 0 {
		text += ", token " + strconv.FormatUint(token, 10)
	}
	if waiters > 0 {
		text += fmt.Sprintf(", %d waiting", waiters)
	}
	return text
}
