package holdfastweb

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

// Handler is the page. Make one by [New], and close it when the service ends.
type Handler struct {
	opts     Options
	masters  []*inspect.Inspector
	names    []string // of the masters, for people; empty if there is only one
	poller   *poller
	single   []*purse // of each master, for pages of single locks
	sameSite *http.CrossOriginProtection

	closing chan struct{} // closed by Close
	once    sync.Once
	streams sync.WaitGroup
	mu      sync.Mutex // guards that streams is added to only before it is waited for
}

// New makes the page of the locks in rdb: a *redis.Client (one server, or Sentinel) or a
// *redis.ClusterClient, which stays the caller's. Nil options mean the defaults. New sends nothing. Its
// error names the invalid option.
func New(rdb redis.UniversalClient, opts *Options) (*Handler, error) {
	h := &Handler{closing: make(chan struct{})}
	if opts != nil {
		h.opts = *opts
	}
	if err := h.opts.complete(); err != nil {
		return nil, err
	}
	var err error
	if h.sameSite, err = h.opts.sameSite(); err != nil {
		return nil, err
	}
	var searches []*search
	all := append([]redis.UniversalClient{rdb}, h.opts.Masters...)
	for _, rdb := range all {
		i, err := inspect.New(rdb, &inspect.Options{ClassicPubSub: h.opts.ClassicPubSub})
		if err != nil {
			return nil, err
		}
		h.masters = append(h.masters, i)
		s, err := newSearch(rdb, &h.opts)
		if err != nil {
			return nil, err
		}
		searches = append(searches, s)
		if len(all) > 1 {
			h.names = append(h.names, addressOf(rdb))
		}
	}
	h.poller = newPoller(all, h.masters, searches, &h.opts)
	for range h.masters {
		h.single = append(h.single, newPurse(h.opts.Share*ofSingle, fullPurse))
	}
	return h, nil
}

// addressOf is what a master is called.
func addressOf(rdb redis.UniversalClient) string {
	if r, ok := rdb.(*redis.Client); ok {
		return r.Options().Addr
	}
	return "cluster"
}

// Close ends all live pages and the poller that asks Redis for them, and waits for their end. It waits
// for a command under way, and for at most ten seconds for a browser that reads nothing. Afterwards the
// page says that it is closed. http.Server.Shutdown waits for live pages for ever, so call Close before
// it, or by RegisterOnShutdown.
func (h *Handler) Close() {
	h.once.Do(func() { h.mu.Lock(); close(h.closing); h.mu.Unlock() })
	h.poller.close()
	h.streams.Wait()
}

func (h *Handler) closed() bool {
	select {
	case <-h.closing:
		return true
	default:
		return false
	}
}

//go:embed assets
var assets embed.FS

var pages = template.Must(template.New("").ParseFS(assets, "assets/*.html"))

// static are the files that do not change while the program runs. Their address has a sum of what is in
// them, so that browsers keep them, and none keeps one of another version.
var static = map[string]*struct{ kind, sum, body string }{
	"style.css": {kind: "text/css; charset=utf-8"}, "page.js": {kind: "text/javascript; charset=utf-8"}, "icon.svg": {kind: "image/svg+xml"},
}

func init() {
	for name, file := range static {
		body, err := assets.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // the program was not built with them
		}
		sum := sha256.Sum256(body)
		file.body, file.sum = string(body), hex.EncodeToString(sum[:6])
	}
}

// policy lets the page load its own style and script, and send forms to itself, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers by the last part of the path, so that it need not know below which one it is.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	// Not no-referrer: a browser then sends forms of the page's own with "Origin: null".
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")

	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if file := static[name]; file != nil {
		h.serve(w, r, map[string]http.HandlerFunc{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			head.Set("Content-Type", file.kind)
			head.Set("Cache-Control", "public, max-age=31536000, immutable")
			_, _ = w.Write([]byte(file.body)) // who went away misses nothing
		}})
		return
	}
	head.Set("Cache-Control", "no-store")
	switch {
	case h.closed():
		h.say(w, http.StatusServiceUnavailable, "Closed", "This page is closed: the program that serves it is ending.")
	case name == "" && !inFolder(r):
		h.intoFolder(w, r)
	case name == "":
		h.serve(w, r, map[string]http.HandlerFunc{http.MethodGet: h.list})
	case name == "lock":
		h.serve(w, r, map[string]http.HandlerFunc{http.MethodGet: h.lock})
	case name == "events":
		h.serve(w, r, map[string]http.HandlerFunc{http.MethodGet: h.stream})
	case name == "end":
		h.serve(w, r, map[string]http.HandlerFunc{http.MethodGet: h.askEnd, http.MethodPost: h.end})
	default:
		h.say(w, http.StatusNotFound, "Not found", "There is no such page. The list of locks may be one step up.")
	}
}

// inFolder reports whether the browser has asked for a path that ends in a slash, whatever has been
// stripped from it since.
func inFolder(r *http.Request) bool {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	return asked == "" || strings.HasSuffix(asked, "/")
}

// intoFolder redirects to the path with a slash, from which relative links lead below it.
func (h *Handler) intoFolder(w http.ResponseWriter, r *http.Request) {
	to, query, _ := strings.Cut(r.RequestURI, "?")
	if query != "" {
		query = "?" + query
	}
	w.Header().Set("Location", "./"+path.Base(to)+"/"+query)
	w.WriteHeader(http.StatusMovedPermanently)
}

// serve calls the function of the request's method.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, by map[string]http.HandlerFunc) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if f := by[method]; f != nil {
		f(w, r)
		return
	}
	allow := "GET, HEAD"
	if by[http.MethodPost] != nil {
		allow += ", POST"
	}
	w.Header().Set("Allow", allow)
	h.say(w, http.StatusMethodNotAllowed, "Not possible", "This address does not take "+shown(r.Method, 20)+".")
}

// frame is what every page needs.
type frame struct {
	Title, Heading string
	Style, Script  string // addresses
	Icon           string
}

func (h *Handler) frame(title string) frame {
	f := frame{Heading: h.opts.Title, Title: h.opts.Title}
	if title != "" {
		f.Title = title + " – " + h.opts.Title
	}
	f.Style, f.Script, f.Icon = "style.css?"+static["style.css"].sum, "page.js?"+static["page.js"].sum, "icon.svg?"+static["icon.svg"].sum
	return f
}

// render writes a page as a whole or not at all.
func (h *Handler) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		h.opts.Logger.Error("holdfastweb: a page cannot be made", "page", name, "error", err)
		http.Error(w, "the page cannot be made; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // who went away misses nothing
}

// fragment is a part of a page.
func fragment(name string, data any) string {
	var b strings.Builder
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a template of ours, on data of ours
	}
	return b.String()
}

// note is a page that says one thing.
type note struct {
	frame
	Status int
	Lines  []string
	Back   string // to the lock; empty: to the list
}

func (h *Handler) say(w http.ResponseWriter, status int, title string, lines ...string) {
	h.render(w, status, "note", note{h.frame(title), status, lines, ""})
}
