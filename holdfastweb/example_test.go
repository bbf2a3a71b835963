package holdfastweb_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// onCall and requireLogin are what a service knows of people.
func onCall(r *http.Request) bool { return r.Header.Get("X-User") == "alice" }

func requireLogin(next http.Handler) http.Handler { return next }

func serve(mux *http.ServeMux, rdb *redis.Client, then func()) error {
	page, err := holdfastweb.New(rdb, &holdfastweb.Options{
		Permit: func(r *http.Request, name string) (string, bool) { return r.Header.Get("X-User"), onCall(r) },
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	defer page.Close()
	mux.Handle("/admin/locks/", requireLogin(page))
	then()
	return nil
}

func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	if _, err := rlock.New(client, "invoices:7").Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	fmt.Println(serve(mux, rdb, func() {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/admin/locks/lock?name=invoices:7", nil))
		fmt.Println(w.Code, strings.Contains(w.Body.String(), "Held by"))
	}))
	// Output:
	// 200 true
	// <nil>
}
