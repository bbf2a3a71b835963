package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
)

// frameDocument begins a frame of "top --json". The fields of both documents stay; there may be more.
type frameDocument struct {
	Frame    int       `json:"frame"`
	Time     time.Time `json:"time"`
	Locks    int       `json:"locks"`
	Waited   int       `json:"waited_for"`
	Wrong    int       `json:"wrong"`
	Listed   *int64    `json:"names_age_ms,omitempty"` // none: no pass over the keys has come to its end
	Progress *float64  `json:"names_progress,omitempty"`
	Taken    float64   `json:"server_percent"` // of the server's time, from the beginning on
	Error    string    `json:"error,omitempty"`
}

// topDocument is a lock in a frame.
type topDocument struct {
	lockDocument
	Master  int       `json:"master,omitempty"` // of several --redis: which one
	Seen    time.Time `json:"seen"`             // by this machine's clock
	Grants  *float64  `json:"grants_per_second,omitempty"`
	Guessed bool      `json:"grants_guessed,omitempty"`
}

// frames prints them until the context ends.
func (c *topConfig) frames(ctx context.Context, pic *live.Picture) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { pic.Find(ctx) })
	defer all.Wait() // before the deferred cancel, hence the next one
	defer cancel()
	m := newTopModel(*c, newDesk(pic, c.every.Duration))
	for n := 1; ; n++ {
		select {
		case <-time.After(c.every.Duration):
		case <-ctx.Done():
			return nil
		}
		c.lookAt(ctx, m)
		if ctx.Err() != nil {
			return nil
		}
		if err := c.printFrame(m, n); err != nil {
			return failure{exitHoldfast, err}
		}
	}
}

// frame prints one. Names are found as "holdfast ls" finds them; a second look is for the grants.
func (c *topConfig) frame(ctx context.Context, pic *live.Picture, stderr io.Writer) error {
	if err := pic.FindAll(ctx, c.isDown); err != nil {
		return err
	}
	select {
	case <-time.After(c.every.Duration):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m := newTopModel(*c, newDesk(pic, c.every.Duration))
	c.lookAt(ctx, m)
	if err := m.status.Err; err != nil {
		return err
	}
	if c.json {
		if err := c.printFrame(m, 1); err != nil {
			return failure{exitHoldfast, err}
		}
		return c.missing()
	}
	if len(m.rows) == 0 { // a header alone says nothing
		fmt.Fprintln(stderr, noLocks(m.query, false))
		return c.missing()
	}
	width := terminalWidth(c.out)
	m.width, m.whole = cmp.Or(width, columns), width == 0
	m.fitOwners(c.first(m))
	if m.whole {
		m.width = m.fullWidth(c.first(m))
	}
	fmt.Fprintln(c.out, m.paint(bold, strings.TrimRight(m.cells(nil), " ")))
	for _, r := range c.first(m) {
		if _, err := fmt.Fprintln(c.out, strings.TrimRight(m.row(r, false), " ")); err != nil {
			return failure{exitHoldfast, err}
		}
	}
	return c.missing()
}

// first are the rows of a frame.
func (c *topConfig) first(m *topModel) []*live.Row {
	if c.rows == 0 {
		return m.rows
	}
	return m.rows[:min(c.rows, len(m.rows))]
}

// lookAt looks at the rows of a frame, and takes what was seen.
func (c *topConfig) lookAt(ctx context.Context, m *topModel) {
	m.refresh(true)
	var keys []live.Key
	for _, r := range c.first(m) {
		keys = append(keys, r.Key)
	}
	_ = m.desk.pic.Look(ctx, keys) // the status has the error
	m.now = time.Now()
	m.refresh(true)
}

func (c *topConfig) printFrame(m *topModel, n int) error {
	st := m.status
	d := frameDocument{Frame: n, Time: m.now.UTC(), Locks: m.known, Waited: m.waited, Wrong: m.bad}
	if !st.Listed.IsZero() {
		d.Listed = millis(m.now.Sub(st.Listed))
	}
	if st.Progress >= 0 {
		d.Progress = &st.Progress
	}
	taken, _ := m.taken()
	d.Taken = 100 * taken
	if st.Err != nil {
		d.Error = c.explain(st.Err).Error()
	}
	if err := printJSON(c.out, d, ""); err != nil {
		return err
	}
	for _, r := range c.first(m) {
		row := topDocument{lockDocument: documentOf(&r.Lock), Seen: r.Seen.UTC(), Guessed: r.Rate.Guessed}
		if len(c.addresses) > 1 {
			row.Master = r.Server + 1
		}
		if r.Rate.Known {
			row.Grants = &r.Rate.PerSecond
		}
		if err := printJSON(c.out, row, ""); err != nil {
			return err
		}
	}
	return nil
}
