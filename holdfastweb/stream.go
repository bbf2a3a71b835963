package holdfastweb

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
)

const (
	// beat is how often a stream looks whether there is something to say, and says at least that it lives. Proxies
	// cut what was silent for five seconds, some of them.
	beat = 2 * time.Second
	// writeWithin is how long a browser may take to accept what is sent. One that takes longer is let go;
	// it comes again by itself.
	writeWithin = 10 * time.Second
)

// errNoFlush is said with a status at which browsers do not come again by themselves.
var errNoFlush = errors.New("this page cannot be live here: what stands in front of it, as middleware, passes nothing on before the end of an " +
	"answer; let its http.ResponseWriter have Unwrap or Flush")

// update is what a live page is told: what is new, and nothing else.
type update struct {
	Rows  map[string]string `json:"rows,omitempty"`  // by ID
	Order []string          `json:"order,omitempty"` // all IDs
	Empty bool              `json:"empty,omitempty"` // there is no row any more
	Head  *string           `json:"head,omitempty"`
	Body  *string           `json:"body,omitempty"` // of the page of one lock
	Now   int64             `json:"now"`
}

// page makes what a stream shows at one time. It remembers what it has told.
type page interface {
	keys() []key
	next(s *snapshot, now time.Time) (u update, changed bool)
}

// stream sends server-sent events until the browser goes, or the page is closed.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		return
	}
	h.mu.Lock()
	if h.closed() {
		h.mu.Unlock()
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	h.streams.Add(1)
	h.mu.Unlock()
	defer h.streams.Done()

	var p page = &listStream{Handler: h, view: viewOf(r.URL.Query())}
	if name := r.URL.Query().Get("name"); name != "" {
		if err := errors.Join(keys.Check(name), h.mayBe(name)); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		p = h.lockStream(r, name)
	}
	me, err := h.poller.watch()
	if err != nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, err.Error()+"; reload the page to see what is new", http.StatusServiceUnavailable)
		return
	}
	defer h.poller.leave(me)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx passes on what it gets at once
	out := events{w, http.NewResponseController(w)}
	if err := out.rc.Flush(); errors.Is(err, http.ErrNotSupported) {
		w.Header().Del("X-Accel-Buffering")
		http.Error(w, errNoFlush.Error(), http.StatusNotImplemented)
		return
	}
	if out.send("retry: 2000\n\n") != nil {
		return
	}
	h.tell(out, r, me, p)
}

func (h *Handler) tell(out events, r *http.Request, me *watcher, p page) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var told []key
	h.poller.show(me, p.keys())
	for {
		s, news := h.poller.now()
		text := "event: here\ndata: 0\n\n" // no comment: those are not for the script of a page
		u, changed := p.next(s, time.Now())
		if changed {
			data, err := json.Marshal(u)
			if err != nil {
				panic(err) // texts and numbers
			}
			text = "data: " + string(data) + "\n\n"
		}
		if out.send(text) != nil {
			return
		}
		if keys := p.keys(); !slices.Equal(keys, told) {
			told = keys
			h.poller.show(me, keys)
		}
		select {
		case <-news:
		case <-tick.C:
		case <-h.closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// events is a stream to a browser.
type events struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// send fails if the browser does not take what it gets. Where the server cannot bound a write, a browser
// that is slow holds up its own stream only.
func (e events) send(text string) error {
	if err := e.rc.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := fmt.Fprint(e.w, text); err != nil {
		return err
	}
	return e.rc.Flush()
}

// listStream is a live list.
type listStream struct {
	*Handler
	view
	told  map[string]string // rows, by ID
	order []string
	head  string
	shown []key

	tooLong bool // the filter takes too long, and that was told
}

func (l *listStream) keys() []key { return l.shown }

func (l *listStream) next(s *snapshot, now time.Time) (u update, changed bool) {
	if l.tooLong {
		return u, false // it would be so each time
	}
	rows, hd := l.look(s, l.view, now, true)
	l.tooLong = hd.TooLong
	told, order, shown := make(map[string]string, len(rows)), make([]string, 0, len(rows)), make([]key, 0, len(rows))
	u = update{Rows: make(map[string]string), Now: now.UnixMilli()}
	for _, e := range rows {
		r := l.row(e, now, true)
		text := fragment("row", r)
		if told[r.ID] = text; l.told[r.ID] != text {
			u.Rows[r.ID] = text
		}
		order, shown = append(order, r.ID), append(shown, e.key)
	}
	if !slices.Equal(order, l.order) || l.told == nil {
		u.Order, u.Empty = order, len(order) == 0
	}
	if text := fragment("head", hd); text != l.head {
		l.head, u.Head = text, &text
	}
	first := l.told == nil
	l.told, l.order, l.shown = told, order, shown
	return u, first || len(u.Rows) > 0 || u.Order != nil || u.Empty || u.Head != nil
}
