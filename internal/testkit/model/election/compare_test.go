package election

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// compare notes how a reply, and the messages beside it, differ from the model's.
func (r *replay) compare(what string, want answer, got lua.Reply) {
	switch {
	case got.Status != want.status:
		r.differ("%s replied %d, the model %d", what, got.Status, want.status)
	case what == "acquire" && got.Status == lua.Done:
		r.same(want.token, got.Text(0))
	case what == "leader" && got.Status == lua.Done:
		left := ticks(time.Duration(got.Int(3)) * time.Millisecond)
		if got.Text(0) != owner(r.model.saidBy) || got.Text(1) != strconv.FormatInt(r.real[want.token], 10) || got.Text(2) != "v w" ||
			left != want.left {
			r.differ("leader replied %v, the model %+v", got, want)
		}
	case (what == "announce" || what == "release") && got.Text(0) != "":
		r.differ("%s replied %q", what, got.Text(0))
	}
	observers, mailboxes := r.heard()
	switch text := ""; {
	case !want.told && len(observers) > 0, want.told && len(observers) != 1:
		r.differ("%s told observers %v, the model %t", what, observers, want.told)
	case want.told:
		if text = "0"; what == "announce" {
			text = strconv.FormatInt(r.real[r.model.said], 10)
		}
		if observers[0].Payload != text {
			r.differ("%s told observers %q, the model %q", what, observers[0].Payload, text)
		}
	}
	switch {
	case want.mail == 0 && len(mailboxes) == 0:
	case want.mail == 0 || len(mailboxes) != 1:
		r.differ("%s sent %v, the model tells %d", what, mailboxes, want.mail)
	default:
		client, number, _ := strings.Cut(owner(want.mail), ":")
		fields := strings.Fields(mailboxes[0].Payload)
		require.GreaterOrEqual(r.t, len(fields), 4)
		if mailboxes[0].Channel != r.key("channel")+":"+client || fields[0] != number || len(fields) != 4 {
			r.differ("%s was told %q, not %s", mailboxes[0].Channel, mailboxes[0].Payload, owner(want.mail))
			return
		}
		r.same(r.model.token, fields[1])
	}
}

// heard are the messages that were sent so far: what a server sends by one connection comes in
// order, so all of them are before one that is sent now.
func (r *replay) heard() (observers, mailboxes []*redis.Message) {
	require.NoError(r.t, r.rdb.Publish(r.t.Context(), r.name, "end").Err())
	for {
		m, err := r.ears.ReceiveMessage(r.t.Context())
		require.NoError(r.t, err)
		switch m.Channel {
		case r.name:
			return observers, mailboxes
		case r.key("changes"):
			observers = append(observers, m)
		default:
			mailboxes = append(mailboxes, m)
		}
	}
}
