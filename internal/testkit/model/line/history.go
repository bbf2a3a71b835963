package line

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/lua"
)

// History is what random histories of all kinds share: owners, and clients with mailboxes.
type History struct {
	*fidelity.Side
	*Terms
	Channel string   // of the lock
	Keys    []string // of the lock
}

// End leaves nothing behind.
func (h *History) End() {
	h.Lose(h.Keys...)
	h.Side.End()
}

// ClientName is the id of a client.
func ClientName(c uint8) string { return "client" + strconv.Itoa(int(c)) }

func number(owner uint8) string { return "h" + strconv.Itoa(int(owner)) }

// Owner is the name of an owner.
func (h *History) Owner(id uint8) string { return ClientName(h.Client(id)) + ":" + number(id) }

// Among are the names of some owners, as arguments of a script.
func (h *History) Among(owners []uint8) (names []any) {
	for _, id := range owners {
		names = append(names, h.Owner(id))
	}
	return names
}

func (h *History) mailbox(c uint8) string { return h.Channel + ":" + ClientName(c) }

// Toggle lets a client listen, or no longer.
func (h *History) Toggle(c uint8) {
	h.Up.Put(c, !h.Up.Has(c))
	h.Listen(h.Up.Has(c), h.mailbox(c))
}

// Command is one that the model has executed, and the server has not yet.
type Command struct {
	What   string
	Call   lua.Call
	Status lua.Status
	Values []any             // of the reply, as far as the model says; see [fidelity.Side.Run]
	Mail   []Mail            // that the script sends
	Behind func(Mail) string // what comes at the end of one that tells of a grant
	Others []string          // what the script says on the lock's channel behind these
	Handed bool              // the script handed something over
}

// Execute executes a command at the server, and says which branch that was.
func (h *History) Execute(c *Command) (got lua.Reply, branch string) {
	got = h.Run(c.What, c.Call, c.Status, c.Values...)
	h.hear(c)
	switch {
	case slices.ContainsFunc(c.Mail, func(m Mail) bool { return m.Token == 0 }):
		return got, "not so many"
	case len(c.Mail) > 0:
		return got, "handed over: " + strings.TrimSuffix(c.What, " again")
	case c.Handed && (c.What == "poll" || c.Status != lua.Done):
		return got, "handed over, unheard"
	}
	return got, c.What + " " + strconv.Itoa(int(c.Status))
}

// hear compares the messages that a script sent with those of the model: "<number of the owner>
// <token> <time of the grant, us> <claim, ms>" and something behind that, or dashes where there cannot
// be a grant.
func (h *History) hear(c *Command) {
	heard := h.Heard()
	if len(heard) != len(c.Mail)+len(c.Others) {
		h.Differ("%s sent %v, the model %v and %v", c.What, heard, c.Mail, c.Others)
		return
	}
	for i, m := range c.Mail {
		text, expected := heard[i].Payload, number(m.Owner)+" - - -"
		if m.Token != 0 {
			expected = number(m.Owner) + " - - " + strconv.FormatInt(h.Millis(h.Claim), 10) + c.Behind(m)
			f := append(strings.Fields(text), "", "", "")
			h.Same("the message", fidelity.Token(m.Token), f[1])
			_, err := strconv.ParseInt(f[2], 10, 64)
			h.Same("the time of the grant", nil, err)
			f[1], f[2] = "-", "-"
			text = strings.TrimRight(strings.Join(f, " "), " ")
		}
		h.Same("the mailbox", h.mailbox(h.Client(m.Owner)), heard[i].Channel)
		h.Same(c.What, expected, text)
	}
	for i, text := range c.Others {
		m := heard[len(c.Mail)+i]
		h.Same("the channel", h.Channel, m.Channel)
		h.Same(c.What, text, m.Payload)
	}
}

// Places reads a sorted set of places: how many ticks are left of each, or model.Endless of an owner
// that was handed the lock; and how long the queue's keys live.
func (h *History) Places(deadlines, queue string) (places map[string]uint8, lives [2]time.Duration) {
	ctx, pipe := h.T.Context(), h.RDB.Pipeline()
	now, all := pipe.Time(ctx), pipe.ZRangeWithScores(ctx, deadlines, 0, -1)
	first, second := pipe.PTTL(ctx, deadlines), pipe.PTTL(ctx, queue)
	_, err := pipe.Exec(ctx)
	require.NoError(h.T, err)
	places = map[string]uint8{}
	for _, z := range all.Val() {
		left := uint8(model.Endless)
		if z.Score > 0 {
			left = fidelity.Ticks(max(0, time.UnixMilli(int64(z.Score)).Sub(now.Val())))
		}
		places[z.Member.(string)] = left
	}
	return places, [2]time.Duration{first.Val(), second.Val()}
}
