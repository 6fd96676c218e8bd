create extension if not exists hstore;
create extension if not exists citext;
create extension if not exists ltree;
create extension if not exists isn;
create schema shop;
create type shop.mood as enum ('sad', 'ok', 'very, happy');
create type shop.address as (street text, number integer);
create domain shop.positive as integer check (value > 0);
create domain shop.money_amount as numeric(12, 3);
create domain shop.positive_twice as shop.positive;
create domain shop.short_name as varchar(8);

create table shop.numbers (
  id integer primary key,
  an_int2 int2, an_int4 int4, an_int8 int8, a_float4 float4, a_float8 float8, a_bool bool, an_oid oid,
  a_numeric numeric, a_numeric5 numeric(5), a_numeric5_2 numeric(5, 2), a_numeric_negative numeric(4, -2),
  a_numeric60_10 numeric(60, 10), a_numeric3_5 numeric(3, 5), a_money money, a_positive shop.positive,
  an_amount shop.money_amount, a_twice shop.positive_twice
);
create table shop.texts (
  id bigint primary key,
  a_text text, a_varchar varchar, a_varchar5 varchar(5), a_char char, a_char4 char(4), a_special "char", a_name name,
  a_bytea bytea, a_json json, a_jsonb jsonb, a_xml xml, a_uuid uuid, a_citext citext, an_hstore hstore,
  an_ltree ltree, an_isbn isbn, a_tsvector tsvector, a_tsquery tsquery, a_mood shop.mood, a_name8 shop.short_name,
  a_composite shop.address
);
create table shop.times (
  id smallint primary key,
  a_date date, a_time time, a_time0 time(0), a_time3 time(3), a_time6 time(6), a_timetz timetz, a_timetz2 timetz(2),
  a_timestamp timestamp, a_timestamp0 timestamp(0), a_timestamp3 timestamp(3), a_timestamp6 timestamp(6),
  a_timestamptz timestamptz, a_timestamptz0 timestamptz(0), a_timestamptz3 timestamptz(3),
  an_interval interval, an_interval0 interval(0), an_interval_day interval day to second
);
create table shop.others (
  id uuid primary key,
  an_inet inet, a_cidr cidr, a_macaddr macaddr, a_macaddr8 macaddr8, a_bit bit, a_bit3 bit(3), a_bit17 bit(17),
  a_varbit varbit, a_varbit1 varbit(1), a_varbit20 varbit(20), a_point point, a_line line, an_lseg lseg, a_box box,
  a_path path, a_polygon polygon, a_circle circle, an_int4range int4range, an_int8range int8range, a_numrange numrange,
  a_tsrange tsrange, a_tstzrange tstzrange, a_daterange daterange, a_pg_lsn pg_lsn, a_snapshot pg_snapshot,
  a_multirange int4multirange, a_regclass regclass
);
create table shop.arrays (
  id integer primary key,
  int2s int2[], int4s int4[], int8s int8[], float4s float4[], float8s float8[], bools bool[], oids oid[],
  numerics numeric[], numerics5_2 numeric(5, 2)[], texts text[], varchars varchar(5)[], chars char(3)[], byteas bytea[],
  dates date[], times time[], times3 time(3)[], timetzs timetz[], timestamps timestamp[], timestamps3 timestamp(3)[],
  timestamptzs timestamptz[], uuids uuid[], jsons json[], jsonbs jsonb[], inets inet[], cidrs cidr[],
  macaddrs macaddr[], int4ranges int4range[], tsranges tsrange[], moods shop.mood[], citexts citext[], hstores hstore[],
  ltrees ltree[], moneys money[], intervals interval[], xmls xml[], points point[], bits bit[], varbits varbit[],
  bits3 bit(3)[], positives shop.positive[], addresses shop.address[]
);
create table shop.required (
  id serial primary key,
  an_int2 int2 not null, an_int4 int4 not null, an_int8 int8 not null, a_float4 float4 not null,
  a_float8 float8 not null, a_bool bool not null, an_oid oid not null, a_numeric numeric not null,
  a_numeric5_2 numeric(5, 2) not null, a_money money not null, a_text text not null, a_char4 char(4) not null,
  a_bytea bytea not null, a_json json not null, a_xml xml not null, a_uuid uuid not null, a_citext citext not null,
  an_hstore hstore not null, an_ltree ltree not null, a_tsvector tsvector not null, a_mood shop.mood not null,
  a_date date not null, a_time time not null, a_timetz timetz not null, a_timestamp timestamp not null,
  a_timestamp3 timestamp(3) not null, a_timestamptz timestamptz not null, an_interval interval not null,
  an_inet inet not null, a_bit bit not null, a_bit3 bit(3) not null, a_varbit varbit not null, a_point point not null,
  an_int4range int4range not null, int4s int4[] not null, texts text[] not null, a_positive shop.positive not null
);
create table shop.defaults (
  id bigserial primary key,
  an_int2 int2 default 7, an_int4 int4 not null default -7, an_int8 int8 default 9223372036854775807,
  a_float4 float4 default 1.5, a_float8 float8 default -2.25, a_bool bool default true, a_numeric numeric default 1.50,
  a_numeric5_2 numeric(5, 2) default 3.1, a_text text default 'it''s', a_text2 text default 'plain',
  a_varchar varchar(9) not null default 'abc', a_char4 char(4) default 'ab', a_json json default '{"a": 1}',
  a_jsonb jsonb default '{}', a_uuid uuid default '76019d1a-ad2e-4b22-96e9-1a6d6543c818',
  a_uuid2 uuid default gen_random_uuid(), a_date date default '2020-02-03', a_date2 date default current_date,
  a_time time default '04:05:06.789', a_timetz timetz default '04:05:06+01',
  a_timestamp timestamp default '2020-02-03 04:05:06.789123', a_timestamp2 timestamp default now(),
  a_timestamp3 timestamp(3) not null default '2020-02-03 04:05:06.789',
  a_timestamptz timestamptz default '2020-02-03 04:05:06.789+00', a_timestamptz2 timestamptz not null default now(),
  an_interval interval default '1 day', a_bit bit default B'1', a_bit3 bit(3) default B'101',
  a_varbit varbit(20) default B'110', a_mood shop.mood default 'ok', a_bytea bytea default '\x01', a_null int4 default null,
  a_sum int4 default 1 + 1, a_function text default lower('ABC'), a_point point default '(1,2)', a_money money default 5,
  int4s int4[] default '{1,2}', a_positive shop.positive default 3, an_inet inet default '10.0.0.1',
  an_xml xml default '<a/>', a_citext citext default 'Ci', a_generated int4 generated always as (1) stored,
  an_identity int4 generated by default as identity, a_typed_null int4 default null::int4, an_amount shop.money_amount default 1.5
);
create table shop.no_key (a integer, b text, c timestamp);
create table shop.full_row (id integer primary key, a text, b text);
alter table shop.full_row replica identity full;
create table shop.by_index (id integer primary key, code text not null unique, note text);
create unique index by_code on shop.by_index (code);
alter table shop.by_index replica identity using index by_code;
create table shop.only_unique (code text not null unique, note text);
create table shop.composite (b text, a integer, note text, primary key (a, b));
create table shop."Odd-Name é" ("select" integer primary key, "a b" text, "ü" text, "1st" integer);
create table shop.large (id integer primary key, big text, many integer[], raw bytea, doc jsonb, tags hstore, n integer);
create table shop.people (
  id integer primary key, name text, email varchar(40), pin char(4), age integer, secret text not null default 'x', bio text
);
create table shop.extremes (
  id integer primary key, a_date date, a_time time, a_time3 time(3), a_timestamp timestamp, a_timestamp3 timestamp(3),
  a_timestamptz timestamptz, dates date[], timestamptzs timestamptz[]
);
create table shop.zz_done (id integer primary key);
