// What gocql must be able to do: go run . ADDRESS PORT. Prints "N passed, N failed".
package main

import (
	"fmt"
	"math/big"
	"net"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/gocql/gocql"
	"gopkg.in/inf.v0"
)

var session *gocql.Session

func check(condition bool, format string, values ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, values...)
}

func roundTrip(number int, cqlType string, value any) error {
	table := fmt.Sprintf("go_tests.type_%d", number)
	if err := session.Query("CREATE TABLE " + table + " (k int PRIMARY KEY, v " + cqlType + ")").Exec(); err != nil {
		return err
	}
	if err := session.Query("INSERT INTO "+table+" (k, v) VALUES (?, ?)", 1, value).Exec(); err != nil {
		return err
	}
	got := reflect.New(reflect.TypeOf(value))
	if err := session.Query("SELECT v FROM "+table+" WHERE k = ?", 1).Scan(got.Interface()); err != nil {
		return err
	}
	left, right := fmt.Sprint(got.Elem().Interface()), fmt.Sprint(value)
	return check(left == right, "%s: %s is not %s", cqlType, left, right)
}

func types() error {
	id, _ := gocql.ParseUUID("c4e2f8a0-1d3b-11f0-8de9-0242ac120002")
	cases := []struct {
		name  string
		value any
	}{
		{"ascii", "plain"}, {"bigint", int64(-1 << 63)}, {"blob", []byte{0, 255}}, {"boolean", true},
		{"date", time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}, {"decimal", inf.NewDec(-12340, 3)},
		{"double", 1.5e300}, {"duration", gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}},
		{"float", float32(0.25)}, {"inet", net.ParseIP("2001:db8::1")}, {"int", -7},
		{"smallint", int16(-300)}, {"text", "gr\u00fc\u00df"}, {"time", 86399 * time.Second},
		{"timestamp", time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)}, {"timeuuid", id},
		{"tinyint", int8(-128)}, {"uuid", id}, {"varint", new(big.Int).Lsh(big.NewInt(-1), 100)},
		{"list<int>", []int{3, 1, 3}}, {"set<text>", []string{"a", "b"}},
		{"map<int, text>", map[int]string{1: "x", 2: "y"}},
		{"frozen<list<frozen<list<int>>>>", [][]int{{1, 2}, {3}}},
	}
	for number, one := range cases {
		if err := roundTrip(number, one.name, one.value); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

type address struct {
	Street string `cql:"street"`
	Number int    `cql:"number"`
}

func structured() error {
	for _, text := range []string{
		"CREATE TYPE go_tests.address (street text, number int)",
		"CREATE TABLE go_tests.structured (k int PRIMARY KEY, u frozen<address>, t tuple<int, text>)",
		"CREATE TABLE go_tests.counted (k int PRIMARY KEY, n counter)",
		"UPDATE go_tests.counted SET n = n + 7 WHERE k = 1",
		"UPDATE go_tests.counted SET n = n - 2 WHERE k = 1",
	} {
		if err := session.Query(text).Exec(); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	home := address{"a", 3}
	insert := "INSERT INTO go_tests.structured (k, u, t) VALUES (?, ?, (?, ?))"
	if err := session.Query(insert, 1, home, 5, "five").Exec(); err != nil {
		return err
	}
	var got address
	var number int
	var text string
	select_ := "SELECT u, t FROM go_tests.structured WHERE k = 1"
	if err := session.Query(select_).Scan(&got, &number, &text); err != nil {
		return err
	}
	var count int64
	if err := session.Query("SELECT n FROM go_tests.counted WHERE k = 1").Scan(&count); err != nil {
		return err
	}
	return check(got == home && number == 5 && text == "five" && count == 5,
		"%v %d %s %d", got, number, text, count)
}

func pages() error {
	if err := session.Query("CREATE TABLE go_tests.wide (p int, c int, v text, PRIMARY KEY (p, c))").Exec(); err != nil {
		return err
	}
	for start := 0; start < 10000; start += 100 {
		batch := session.NewBatch(gocql.UnloggedBatch)
		for c := start; c < start+100; c++ {
			batch.Query("INSERT INTO go_tests.wide (p, c, v) VALUES (?, ?, ?)", c%7, c, strconv.Itoa(c))
		}
		if err := session.ExecuteBatch(batch); err != nil {
			return err
		}
	}
	iterator := session.Query("SELECT p, c, v FROM go_tests.wide").PageSize(333).Iter()
	seen := make(map[int]bool)
	var p, c int
	var v string
	for iterator.Scan(&p, &c, &v) {
		if v != strconv.Itoa(c) || p != c%7 {
			return fmt.Errorf("row (%d, %d, %s)", p, c, v)
		}
		seen[c] = true
	}
	if err := iterator.Close(); err != nil {
		return err
	}
	return check(len(seen) == 10000, "%d rows of 10000", len(seen))
}

func batches() error {
	if err := session.Query("CREATE TABLE go_tests.batched (k int PRIMARY KEY, v int)").Exec(); err != nil {
		return err
	}
	batch := session.NewBatch(gocql.LoggedBatch)
	for k := 0; k < 20; k++ {
		batch.Query("INSERT INTO go_tests.batched (k, v) VALUES (?, ?)", k, k*k)
	}
	if err := session.ExecuteBatch(batch); err != nil {
		return err
	}
	var count int
	if err := session.Query("SELECT count(*) FROM go_tests.batched").Scan(&count); err != nil {
		return err
	}
	return check(count == 20, "%d rows of 20", count)
}

func connect() error {
	cluster := gocql.NewCluster(os.Args[1])
	cluster.Port, _ = strconv.Atoi(os.Args[2])
	cluster.ProtoVersion = 4
	cluster.Timeout = 30 * time.Second
	cluster.ConnectTimeout = 30 * time.Second
	cluster.Consistency = gocql.LocalOne
	var err error
	if session, err = cluster.CreateSession(); err != nil {
		return err
	}
	return session.Query("CREATE KEYSPACE go_tests WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec()
}

func main() {
	passed, failed := 0, 0
	tests := []struct {
		name string
		run  func() error
	}{{"connect", connect}, {"types", types}, {"structured", structured}, {"pages", pages}, {"batches", batches}}
	for _, test := range tests {
		if err := test.run(); err != nil {
			failed++
			fmt.Println("FAILED", test.name, err)
			if test.name == "connect" {
				break
			}
		} else {
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
