package permits

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/lua"
)

// left is what a script says of the lease that ends first.
func (h *history) left(ticks uint8) fidelity.Left {
	if ticks == none {
		return placeTicks
	}
	return fidelity.Left(ticks)
}

// compareWho: who has the permit that ends first is one of those whose permits do.
func (h *history) compareWho(what string, left uint8, who string) {
	for _, p := range h.out {
		if p.n > 0 && p.left == left && (who == "" && p.owner == foreigner || h.owner(p.owner) == who) {
			return
		}
	}
	if left != none || who != "" {
		h.Differ("%s named %q, and the model has %v", what, who, h.out)
	}
}

// comparePoll: those who were handed permits come in any order, and then those who have no place.
func (h *history) comparePoll(want *answer, got lua.Reply, asked []uint8) {
	var given, missing []string
	for i, owner := range asked {
		if want.missing&(1<<i) != 0 {
			missing = append(missing, h.Owner(owner))
		}
	}
	for _, owner := range requesters {
		if want.given&(1<<owner) != 0 {
			given = append(given, h.Owner(owner))
		}
	}
	called := ""
	if want.foreign {
		called = "redisson"
	}
	told := got.Texts(6)
	first := slices.Clone(told[:min(len(given), len(told))])
	if len(first) == 0 {
		h.compareWho("poll", want.left, got.Text(2))
	} else {
		h.Same("poll", first[0], got.Text(2))
	}
	slices.Sort(first)
	slices.Sort(given)
	h.Same("poll", slices.Concat(given, missing), slices.Concat(first, told[len(first):]))
	for i, value := range []any{h.left(want.left), fidelity.Other{}, fidelity.Other{}, called, model.Bit(want.heard), 0} {
		h.Same("poll", value, got.Value(i))
	}
}

// Difference compares the keys. That each has an end is enough.
func (h *history) Difference() string {
	free, token := fidelity.Key{Name: h.Name, TTL: fidelity.Some}, fidelity.Key{Name: h.token, TTL: h.TokenTTL}
	if h.counted {
		free.Value = int(h.free)
	}
	if h.Token != 0 {
		token.Value = fidelity.Token(h.Token)
	}
	permits, places := fidelity.Until{}, map[string]uint8{}
	for _, p := range h.out {
		if p.handed {
			places[h.owner(p.owner)] = model.Endless
		}
		first := int8(model.Bit(p.torn)) //nolint:gosec // 0 or 1
		for i := first; i < p.n+first; i++ {
			if permit := h.owner(p.owner); i > 0 {
				permits[permit+"/"+strconv.Itoa(int(i)+1)] = p.left
			} else {
				permits[permit] = p.left
			}
		}
	}
	queue, wants := []string(nil), fidelity.Hash{}
	for _, p := range model.Under(h.Queue[:]) {
		owner, n := h.Owner(p.Owner), h.terms.wants(p.Owner)
		queue = append(queue, owner)
		if places[owner] = p.Left; n > 1 {
			wants[owner] = int(n)
		}
	}
	have, lives := h.Places(h.places, h.queue)
	queued := h.RDB.ZRange(h.T.Context(), h.queue, 0, -1).Val()
	maps.DeleteFunc(have, func(owner string, _ uint8) bool { // clients that let a claim end
		return !strings.Contains(owner, ":")
	})
	if !maps.Equal(have, places) || !slices.Equal(queued, queue) || slices.Contains(lives[:], -1) {
		h.Differ("in the queue are %v with %v, the model's are %v with %v; its keys live for %v", queued, have, queue, places, lives)
	}
	ends := fidelity.Key{Name: h.permits, Value: permits, TTL: fidelity.Some}
	wanted := fidelity.Key{Name: h.wants, TTL: fidelity.Some}
	if len(wants) > 0 {
		wanted.Value = wants
	}
	return h.Compare(free, token, ends, wanted)
}
