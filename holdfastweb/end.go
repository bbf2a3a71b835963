package holdfastweb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// endWithin is how long ending a hold may take.
const endWithin = 20 * time.Second

// endPage asks whether a hold is meant.
type endPage struct {
	frame
	Name, Owner, Label string
	Parts              []endPart
	Action, Back       string
}

// endPart is what one master has of it.
type endPart struct {
	Server, Kind, Token string
	Since               moment
}

// mayEnd refuses who may not end the hold that a request names, and says so.
func (h *Handler) mayEnd(w http.ResponseWriter, r *http.Request) (hd hold, who string, ok bool) {
	hd, whole := holdOf(r.URL.Query(), len(h.masters))
	switch {
	case h.opts.Permit == nil:
		h.say(w, http.StatusForbidden, "Read-only", "This page only reads: the program that serves it lets nobody end holds. It would by Permit of its "+
			"options, or by --allow-unlock where it is “holdfast ui”.")
		return hd, "", false
	case !whole:
		h.say(w, http.StatusBadRequest, "Nothing was changed", "The address does not say which hold is meant. Open the lock again, and go on from there.")
		return hd, "", false
	}
	if err := errors.Join(keys.Check(hd.name), h.mayBe(hd.name)); err != nil {
		h.say(w, http.StatusNotFound, "Nothing was changed", err.Error())
		return hd, "", false
	}
	if who, ok = h.permitted(r, hd.name); !ok {
		h.opts.Logger.Warn("holdfastweb: not permitted to end a hold", h.attributes(r, hd, who)...)
		h.say(w, http.StatusForbidden, "Not permitted", "You may not end holds of "+shown(hd.name, 200)+". Whoever runs this page says who may.")
	}
	return hd, who, ok
}

func (h *Handler) attributes(r *http.Request, hd hold, who string) []any {
	return []any{slog.String("who", who), slog.String("from", r.RemoteAddr), slog.String("lock", hd.name), slog.String("owner", hd.owner)}
}

// askEnd shows what would be ended, and changes nothing.
func (h *Handler) askEnd(w http.ResponseWriter, r *http.Request) {
	hd, _, ok := h.mayEnd(w, r)
	if !ok {
		return
	}
	locks, down := h.ask(r.Context(), hd.name)
	p := endPage{frame: h.frame("End a hold"), Name: shown(hd.name, inFull), Owner: shown(hd.owner, 200), Action: hd.link(), Back: linkTo(hd.name)}
	for _, part := range hd.parts {
		e := locks[part.at]
		if e == nil {
			h.answer(w, http.StatusServiceUnavailable, hd, "Nothing was changed", h.why(part.at, down[part.at])+".")
			return
		}
		who := e.holder(hd.owner, part.token)
		if who == nil {
			h.answer(w, http.StatusConflict, hd, "Nothing was changed", "Somebody else has the lock by now, or nobody has it, or it was granted again.")
			return
		}
		p.Label = shown(who.Label, 200)
		row := endPart{Kind: kindName(e.lock.Kind), Since: since(e.granted, time.Now(), false)}
		if part.token != 0 {
			row.Token = strconv.FormatUint(part.token, 10)
		}
		if len(h.names) > 0 {
			row.Server = h.names[part.at]
		}
		p.Parts = append(p.Parts, row)
	}
	h.render(w, http.StatusOK, "end", p)
}

// holder is who has it, nil if the one that is meant has not.
func (e *entry) holder(owner string, token uint64) *inspect.Holder {
	if token != 0 && token != e.lock.Token {
		return nil
	}
	for n := range e.lock.Holders {
		if e.lock.Holders[n].Raw == owner {
			return &e.lock.Holders[n]
		}
	}
	return nil
}

// end ends a hold at the masters that the request names, where it is that grant still.
func (h *Handler) end(w http.ResponseWriter, r *http.Request) {
	if err := h.sameSite.Check(r); err != nil {
		h.opts.Logger.Warn("holdfastweb: a form from elsewhere was refused", "from", r.RemoteAddr, "origin", r.Header.Get("Origin"), "error", err)
		h.say(w, http.StatusForbidden, "Refused", "Nothing was changed: the request came from another site's page. If this page is behind a proxy, "+
			"the proxy must keep the Host header, or TrustedOrigins of the page's options must have the address that the browser shows.")
		return
	}
	hd, who, ok := h.mayEnd(w, r)
	if !ok {
		return
	}
	// Who closes the window has sent it all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), endWithin)
	defer cancel()
	done, status, lines := 0, http.StatusOK, []string(nil)
	for _, p := range hd.parts {
		log := append(h.attributes(r, hd, who), slog.Uint64("token", p.token), slog.String("server", h.called(p.at)))
		ended, err := h.masters[p.at].End(ctx, hd.name, inspect.Grant{Owner: hd.owner, Token: p.token})
		at := ""
		if len(h.names) > 0 {
			at = h.names[p.at] + ": "
		}
		if err != nil {
			h.opts.Logger.Warn("holdfastweb: a hold was not ended", append(log, slog.Any("error", err))...)
			status = max(status, statusOf(err))
			lines = append(lines, at+sentence(err))
			continue
		}
		done++
		h.opts.Logger.Info("holdfastweb: a hold was ended", append(log, slog.String("kind", string(ended.Kind)))...)
		lines = append(lines, at+knows(&ended))
		if ended.Untold != "" {
			lines = append(lines, at+"The waiters could not be told ("+ended.Untold+"); they find out when the lease that they know of ends.")
		}
	}
	switch {
	case done == len(hd.parts):
		h.answer(w, http.StatusOK, hd, "The hold was ended", lines...)
	case done > 0:
		h.answer(w, http.StatusOK, hd, fmt.Sprintf("The hold was ended at %d of %d masters", done, len(hd.parts)), lines...)
	case status == http.StatusGatewayTimeout:
		h.answer(w, status, hd, "No answer", lines...)
	default:
		h.answer(w, status, hd, "Nothing was changed", lines...)
	}
}

// statusOf tells that nothing was changed from that nobody knows.
func statusOf(err error) int {
	switch {
	case errors.Is(err, inspect.ErrStale), errors.Is(err, inspect.ErrFree):
		return http.StatusConflict
	case answered(err):
		return http.StatusForbidden // by Redis
	case strings.Contains(err.Error(), "may have ended"):
		return http.StatusGatewayTimeout
	}
	return http.StatusServiceUnavailable
}

// knows says when a holder notices.
func knows(e *inspect.Ended) string {
	switch {
	case e.Holder.Redisson:
		return "Its holder is a client of Redisson, which is not told: its unlock fails."
	case e.Holder.Left:
		return "Its holder had unlocked already."
	case e.Until >= 0:
		return "Its holder notices at its next renewal, and within " + short(e.Until) + " at the latest. It works on until then."
	}
	return "Its holder notices at its next renewal, if it is alive: when that is, Redis does not know. It works on until then."
}

// sentence is an error as it stands in a page.
func sentence(err error) string {
	text := said(err, 400) + remedy(err)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// answer says what came of a request, with a way back to the lock.
func (h *Handler) answer(w http.ResponseWriter, status int, hd hold, title string, lines ...string) {
	h.render(w, status, "note", note{h.frame(title), status, lines, linkTo(hd.name)})
}
