package holdfastmigrate_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	holdfastmigrate "github.com/holdfast-go/holdfast/adapters/migrate"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Each process runs this when it starts; one migrates, and the others wait for it.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	db.SetMaxOpenConns(1) // of this database in memory
	own, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := iofs.New(fstest.MapFS{"m/1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER);")}}, "m")
	if err != nil {
		fmt.Println(err)
		return
	}

	driver := holdfastmigrate.New(own, rlock.New(client, "migrations"), 0)
	m, err := migrate.NewWithInstance("iofs", files, "sqlite", driver)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Up()) // errors.Is(err, holdfast.ErrLost): another process may have migrated too
	fmt.Println(m.Close())
	// Output:
	// <nil>
	// <nil> <nil>
}
