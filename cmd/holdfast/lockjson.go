package main

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/inspect"
)

// lockDocument is a lock as --json has it. Its fields stay; there may be more. Tokens are texts, because
// many programs read numbers as floating point. What is not known, or does not apply, is left out.
type lockDocument struct {
	Name      string            `json:"name"`
	Bytes     string            `json:"name_base64,omitempty"` // of a name that is no UTF-8
	Kind      inspect.Kind      `json:"kind"`
	Server    string            `json:"server,omitempty"`
	At        time.Time         `json:"at"`
	Granted   *time.Time        `json:"granted,omitempty"`
	LeftMS    *int64            `json:"left_ms,omitempty"`
	Token     string            `json:"token,omitempty"`
	Holders   []holderDocument  `json:"holders,omitempty"`
	Waiters   *int              `json:"waiters,omitempty"`
	Listening *int              `json:"listening,omitempty"`
	Uncounted bool              `json:"uncounted,omitempty"` // there may be waiters whom neither counts
	Queue     []waiterDocument  `json:"queue,omitempty"`
	Permits   *permitsDocument  `json:"permits,omitempty"`
	Count     *int64            `json:"count,omitempty"`
	Leader    *leaderDocument   `json:"leader,omitempty"`
	More      bool              `json:"more,omitempty"`
	Problems  []problemDocument `json:"problems,omitempty"`
}

type holderDocument struct {
	Owner    string `json:"owner"`
	Client   string `json:"client,omitempty"`
	Label    string `json:"label,omitempty"`
	Count    int    `json:"count"`
	LeftMS   *int64 `json:"left_ms,omitempty"`
	Mode     string `json:"mode,omitempty"`
	Redisson bool   `json:"redisson,omitempty"`
	Unlocked bool   `json:"unlocked,omitempty"`
}

type waiterDocument struct {
	Owner     string `json:"owner"`
	Client    string `json:"client,omitempty"`
	Label     string `json:"label,omitempty"`
	LeftMS    *int64 `json:"left_ms,omitempty"`
	Listening *int   `json:"listening,omitempty"`
	Wants     int    `json:"wants"`
	Redisson  bool   `json:"redisson,omitempty"`
	Alive     bool   `json:"alive"`
}

type permitsDocument struct {
	All  int64 `json:"all"`
	Free int64 `json:"free"`
	Out  int64 `json:"out"`
}

type leaderDocument struct {
	Owner string `json:"owner"`
	Token string `json:"token"`
	Value string `json:"value"`
}

type problemDocument struct {
	Trouble inspect.Trouble `json:"trouble"`
	Text    string          `json:"text"`
}

func documentOf(l *inspect.Lock) lockDocument {
	d := lockDocument{
		Name: l.Name, Kind: l.Kind, Server: l.Server, At: l.At.UTC(), LeftMS: millis(remaining(l)), Waiters: known(l.Waiters),
		Listening: known(l.Listening), Uncounted: l.Uncounted(), More: l.More,
	}
	d.Bytes = bytesOf(l.Name)
	if granted := l.Granted(); !granted.IsZero() {
		granted = granted.UTC()
		d.Granted = &granted
	}
	if l.Token > 0 {
		d.Token = strconv.FormatUint(l.Token, 10)
	}
	for _, h := range l.Holders {
		d.Holders = append(d.Holders, holderDocument{h.Owner, h.Client(), h.Label, h.Count, millis(h.Remaining), string(h.Mode), h.Redisson, h.Left})
	}
	for _, w := range l.Queue {
		d.Queue = append(d.Queue, waiterDocument{w.Owner, w.Client(), w.Label, millis(w.Remaining), known(w.Listening), w.Wants, w.Redisson, w.Alive()})
	}
	if p := l.Permits; p != nil {
		d.Permits = &permitsDocument{p.All, p.Free, p.Out}
	}
	if l.Kind == inspect.Latch {
		d.Count = &l.Count
	}
	if l.Leader != nil {
		d.Leader = &leaderDocument{l.Leader.Owner, strconv.FormatUint(l.Leader.Token, 10), l.Leader.Value}
	}
	for _, p := range l.Problems {
		d.Problems = append(d.Problems, problemDocument(p))
	}
	return d
}

// bytesOf is what a document has beside a name that is no UTF-8, which JSON cannot have.
func bytesOf(name string) string {
	if utf8.ValidString(name) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(name))
}

// millis is nil for what has no end.
func millis(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// known is nil for -1.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
