// Command handler is an HTTP server that pays each order once at a time, however many instances of it run.
//
//	go run ./examples/handler
//	curl -X POST 127.0.0.1:8080/orders/42/pay
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logging.Disable() // during an outage go-redis would write to stderr; the errors say what is the matter
	rdb := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379")})
	defer rdb.Close() // after the client, which needs it to give locks back
	// RetryBudget bounds each operation, so also the unlock after the work.
	client, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: time.Second})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	if _, err := rlock.New(client, "orders:").State(ctx); err != nil {
		return err // now, and not at the first request: Redis is away, or wants a password
	}

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}/pay", pay(client))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	drained := make(chan error, 1)
	go func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		drained <- server.Shutdown(last) // waits for the requests that are being served
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

// pay answers within about three seconds, even if Redis falls silent. Two are the deadline of the request, which bounds
// the wait and the work; Wait leaves time for the work. The third is RetryBudget, for the unlock after the work.
func pay(client *holdfast.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		order := r.PathValue("order")
		lock := rlock.New(client, "orders:"+order)
		begun, done := false, false // an error of Do alone does not say that nothing was charged
		err := holdfast.Do(ctx, lock, func(ctx context.Context) error {
			begun = true
			err := charge(ctx, order) // this ctx ends with the deadline, and also if the lock is lost
			done = err == nil
			return err
		}, holdfast.Wait(500*time.Millisecond))
		switch {
		case err == nil:
			fmt.Fprintln(w, "paid", order)
		case done && errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrLost): // of the unlock alone
			log.Print(err)
			fmt.Fprintln(w, "paid", order)
		case begun: // it may have been charged, and after ErrLost by two: look before anybody tries again
			log.Print(err)
			http.Error(w, "unknown", http.StatusInternalServerError)
		case errors.Is(err, holdfast.ErrInvalid): // the name comes from outside: Redis gives some braces a meaning
			http.Error(w, "no such order", http.StatusBadRequest)
		case errors.Is(err, holdfast.ErrNotAcquired): // another request is paying it
			w.Header().Set("Retry-After", "1")
			http.Error(w, "being paid", http.StatusConflict)
		default: // ErrUnavailable, or the deadline: nothing was charged
			log.Print(err)
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	}
}

// charge stands for the call that must not happen twice at the same time.
func charge(ctx context.Context, order string) error {
	fmt.Println("charging", order)
	return ctx.Err()
}
